package dynamolog

import (
	"context"
	"fmt"
	"iter"

	"mneme/internal/awsconf"
	"mneme/versionlog"
)

// Commits yields the commits above after, oldest first. It costs one GetItem
// and a Query per page.
func (l *Log) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		m, err := l.end(ctx, storeID)
		if err != nil {
			yield(nil, err)
			return
		}
		l.commits(ctx, m, after, m.tip.Seq)(yield)
	}
}

// commits yields the commits above after up to last, which is in the history that META tells
// of, and those that come along.
func (l *Log) commits(ctx context.Context, m *meta, after, last uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		hide, err := l.unerased(ctx, m)
		if err != nil {
			yield(nil, walkError(ctx, err))
			return
		}
		var prev *versionlog.Commit
		for attempt := 0; after < last; attempt++ {
			if attempt > 5 {
				yield(nil, walkError(ctx, l.missing(ctx, m.ID, after+1)))
				return
			}
			if err := backoff(ctx, attempt); err != nil {
				yield(nil, err)
				return
			}
			for c, err := range l.commitRows(ctx, m.ID, hide, after, last) {
				if err != nil {
					yield(nil, walkError(ctx, err))
					return
				}
				if c.Seq != after+1 { // perhaps it is not to be seen yet
					break
				}
				if prev != nil && c.Prev != prev.Digest || c.Seq == 1 && !c.Prev.IsZero() {
					yield(nil, fmt.Errorf("store %s: %w: commit %d does not follow the one before it", m.ID, versionlog.ErrCorrupt, c.Seq))
					return
				}
				if !yield(c, nil) {
					return
				}
				prev, after, attempt = c, c.Seq, 0
			}
		}
	}
}

// commitRows yields the commits above after that LOG rows have, as far as that of last: a row
// is named after the last commit of its transaction, and has fewer than maxRows.
func (l *Log) commitRows(ctx context.Context, storeID string, hide unerased, after, last uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		for i, err := range l.table.rows(ctx, between{partition: storeID, from: logSort(after + 1), to: logSort(last + maxRows)}) {
			var commits []*versionlog.Commit
			if err == nil {
				commits, err = commitsOf(i)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range hide.commits(commits) {
				if c.Seq > after && !yield(c, nil) {
					return
				}
			}
		}
	}
}

// end returns the META row of a store.
func (l *Log) end(ctx context.Context, storeID string) (m *meta, err error) {
	err = call(ctx, func(ctx context.Context) (err error) {
		if m, err = l.store(storeID).readMeta(ctx); err != nil {
			return err
		}
		l.store(storeID).noticed(m.tip.Seq)
		if m.erased < m.redacted {
			l.store(storeID).eraseLater()
		}
		return nil
	})
	return m, err
}

// commitAt returns the commit of a sequence number, which is in the history. Its
// row is that of the last commit of its transaction.
func (l *Log) commitAt(ctx context.Context, storeID string, seq uint64) (*versionlog.Commit, error) {
	for attempt := range 6 { // a row may be seen before others of its transaction
		if err := backoff(ctx, attempt); err != nil {
			return nil, err
		}
		rows, _, err := l.table.page(ctx, between{partition: storeID, from: logSort(seq), to: logSort(maxSeq), limit: 1}, nil)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			continue
		}
		commits, err := commitsOf(rows[0])
		if err != nil {
			return nil, err
		}
		if first := commits[0].Seq; first <= seq {
			return commits[seq-first], nil
		}
	}
	return nil, l.missing(ctx, storeID, seq)
}

// recorded returns the commits of a transaction, which is in the history, and
// their records as its row has them.
func (l *Log) recorded(ctx context.Context, storeID string, of span) ([]*versionlog.Commit, []byte, error) {
	for attempt := range 6 {
		if err := backoff(ctx, attempt); err != nil {
			return nil, nil, err
		}
		i, err := l.table.get(ctx, storeID, logSort(of.last), false)
		if err != nil {
			return nil, nil, err
		}
		if i == nil {
			continue
		}
		commits, err := commitsOf(i)
		if err == nil && commits[0].Seq != of.first {
			err = fmt.Errorf("row %s: %w: it begins with commit %d, not %d", logSort(of.last), versionlog.ErrCorrupt, commits[0].Seq, of.first)
		}
		r := row{item: i}
		return commits, r.bytes("record"), err
	}
	return nil, nil, l.missing(ctx, storeID, of.last)
}

// walkError is the error with which a walk ends.
func walkError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return awsconf.Explain(err)
}

// missing is the error for a commit of which there is no record although there
// should be: unless its store is being deleted, the log is damaged.
func (l *Log) missing(ctx context.Context, storeID string, seq uint64) error {
	if _, err := l.table.meta(ctx, storeID); err != nil {
		return err
	}
	return fmt.Errorf("store %s: %w: no record of commit %d", storeID, versionlog.ErrCorrupt, seq)
}

// unerased are the versions that a redaction in the states 1 or 2 names. Their rows may still
// have what they were, and no reader gets that any more. A process that may not write cannot
// finish the redaction, and one that may would have its readers wait.
type unerased map[string]bool

// unerased returns them as of a META row.
func (l *Log) unerased(ctx context.Context, m *meta) (unerased, error) {
	if m.erased == m.redacted {
		return nil, nil
	}
	c, err := l.commitAt(ctx, m.ID, m.redacted)
	if err != nil {
		return nil, err
	}
	u := unerased{}
	for _, id := range c.Event.ErasedVersions() {
		u[id] = true
	}
	return u, nil
}

// commits returns commits as they are once the rows are erased.
func (u unerased) commits(commits []*versionlog.Commit) []*versionlog.Commit {
	if len(u) > 0 {
		commits, _ = eraseFrom(commits, u)
	}
	return commits
}

// version returns a version as it is once the rows are erased.
func (u unerased) version(v versionlog.Version) versionlog.Version {
	if u[v.ID] {
		v.Erase()
	}
	return v
}

// eraseFrom returns commits without versions of ids, and those that they had, as they were.
func eraseFrom[B any](commits []*versionlog.Commit, ids map[string]B) (erased []*versionlog.Commit, was []versionlog.Version) {
	for _, c := range commits {
		of := c
		for i := range of.Versions {
			if v := &of.Versions[i]; !v.Redacted() && has(ids, v.ID) {
				was = append(was, *v)
				c = c.Erase(v.ID)
			}
		}
		erased = append(erased, c)
	}
	return erased, was
}

func has[B any](ids map[string]B, id string) bool {
	_, ok := ids[id]
	return ok
}
