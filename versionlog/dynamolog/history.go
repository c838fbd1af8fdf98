package dynamolog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"mneme/versionlog"
)

// History yields the versions of a memory below a sequence number, newest first. The rows of a memory
// are written behind its commits, so it looks for those still to be written,
// too: it costs one GetItem, a Query for these, and a Query per page.
func (l *Log) History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	if before == 0 {
		before = maxSeq
	}
	return func(yield func(versionlog.Version, error) bool) {
		var hide unerased
		var late []versionlog.Version
		err := call(ctx, func(ctx context.Context) error {
			m, err := l.table.meta(ctx, storeID)
			if err != nil {
				return err
			}
			if hide, err = l.unerased(ctx, m); err != nil {
				return err
			}
			late, err = l.lateVersions(ctx, storeID, memoryID)
			late = slices.DeleteFunc(late, func(v versionlog.Version) bool { return v.Seq >= before })
			return err
		})
		if err != nil {
			yield(versionlog.Version{}, err)
			return
		}
		if !l.yieldVersions(ctx, l.memoryRows(ctx, storeID, memoryID, before), func(v versionlog.Version, err error) bool {
			for err == nil && len(late) > 0 && late[0].ID >= v.ID {
				if late[0].ID > v.ID && !yield(hide.version(late[0]), nil) {
					return false
				}
				late = late[1:]
			}
			return yield(hide.version(v), err)
		}) {
			return
		}
		for _, v := range late {
			if !yield(hide.version(v), nil) {
				return
			}
		}
	}
}

// Newest returns the newest version of a memory.
func (l *Log) Newest(ctx context.Context, storeID, memoryID string) (versionlog.Version, error) {
	for v, err := range l.History(ctx, storeID, memoryID, 0) {
		return v, err
	}
	return versionlog.Version{}, fmt.Errorf("store %s: memory %s: %w", storeID, memoryID, versionlog.ErrNotFound)
}

// commitsAtOnce is how many commits CommitsBefore holds at a time at most, and firstCommits
// at first, for callers who want a few; tests change the former.
var commitsAtOnce uint64 = 1000

const firstCommits = 32

// CommitsBefore yields the commits below a sequence number that f takes, newest first.
// It reads all, in groups, each as Commits does.
func (l *Log) CommitsBefore(ctx context.Context, storeID string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		m, err := l.end(ctx, storeID)
		if err != nil {
			yield(nil, err)
			return
		}
		high := m.tip.Seq
		if before != 0 {
			high = min(high, before-1)
		}
		for size := uint64(firstCommits); high > 0; size *= 2 {
			low := high - min(high, size, commitsAtOnce)
			commits, err := l.commitsUpTo(ctx, m, low, high)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range slices.Backward(commits) {
				if f.Takes(c) && !yield(c, nil) {
					return
				}
			}
			if len(commits) == 0 || commits[0].Time.Before(f.From) { // none: the store was deleted, and another made
				return
			}
			high = low
		}
	}
}

// commitsUpTo returns the commits above low, up to high.
func (l *Log) commitsUpTo(ctx context.Context, m *meta, low, high uint64) ([]*versionlog.Commit, error) {
	commits := make([]*versionlog.Commit, 0, high-low)
	for c, err := range l.commits(ctx, m, low, high) {
		if err != nil {
			return nil, err
		}
		if commits = append(commits, c); c.Seq == high {
			break
		}
	}
	return commits, nil
}

// lateVersions returns the versions of a memory in commits whose rows may still
// have to be written, newest first.
func (l *Log) lateVersions(ctx context.Context, storeID, memoryID string) ([]versionlog.Version, error) {
	var late []versionlog.Version
	for i, err := range l.table.below(ctx, storeID, outPrefix) {
		if err != nil {
			return nil, err
		}
		o, err := owedOf(i)
		if err != nil {
			return nil, err
		}
		if o.last == 0 {
			continue
		}
		commits, err := l.store(storeID).recent(ctx, o.span)
		if err != nil {
			return nil, err
		}
		for _, c := range commits {
			for _, v := range c.Versions {
				if v.MemoryID == memoryID {
					late = append(late, v)
				}
			}
		}
	}
	slices.Reverse(late)
	return late, nil
}

// recent returns the commits of a transaction, from memory if the view has them.
func (s *store) recent(ctx context.Context, of span) ([]*versionlog.Commit, error) {
	s.mu.Lock()
	if v := s.view; v != nil && of.last <= v.meta.tip.Seq {
		if since, ok := v.since(of.first - 1); ok {
			s.mu.Unlock()
			return since[:of.last-of.first+1], nil
		}
	}
	s.mu.Unlock()
	commits, _, err := s.log.recorded(ctx, s.id, of)
	return commits, err
}

// memoryRows yields the rows of a memory's versions, newest first.
func (l *Log) memoryRows(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[item, error] {
	if memoryID == "" || len(memoryID) > 128 || strings.Contains(memoryID, "#") {
		return func(func(item, error) bool) {}
	}
	b := startingWith(storeID, memPrefix+memoryID+"#")
	b.to = fmt.Sprintf("%s%s#%020d", memPrefix, memoryID, before)
	b.backwards = true
	return l.table.rows(ctx, b)
}
