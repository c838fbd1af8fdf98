package dynamolog

import (
	"context"
	"fmt"
	"strings"

	"mneme/internal/awsconf"
	"mneme/versionlog"
)

// Two histories of one store begin when commits are appended to a table that lacks some,
// such as one that was restored to an earlier time. A Log prevents that:
//
//  1. A record is put into the bucket when its transaction has succeeded. So the
//     bucket may lack records that the table has, but a LIST of it never shows a record
//     above the tip in META, if META is read after the LIST. If it does show one, the table
//     has lost its commits.
//  2. Before the first commit to a store, and when a mount begins, the Log compares the two
//     (agree). It looks at names only, except that it reads the record of the newest
//     commit.
//  3. The Log keeps its view: it does not follow a META row that is behind the view or on
//     another history (readMeta), nor a commit that does not follow the view's
//     (applyForeign).
//  4. A record that the bucket has with other bytes ends the store for this Log
//     (stop): the process that put it continued another history, or this one has.

// CheckBucket makes sure that the bucket can be asked, and has no commits of a store
// that the table lacks: versionlog.ErrRewritten. It costs one LIST, and one GET
// when the bucket has the record of the newest commit. The first Commit makes sure
// of it, too, unless this was called before.
func (l *Log) CheckBucket(ctx context.Context, storeID string) error {
	return call(ctx, l.store(storeID).agree)
}

// agree is CheckBucket until it has succeeded once.
func (s *store) agree(ctx context.Context) error {
	select { // callers at once share the requests
	case s.agreeing <- struct{}{}:
		defer func() { <-s.agreeing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	agreed, m := s.agreed, s.newest
	if s.view != nil {
		m = &meta{creation: s.view.meta.creation, tip: s.view.meta.tip}
	}
	s.mu.Unlock()
	if agreed {
		return nil
	}
	if m == nil {
		var err error
		if m, err = s.readMeta(ctx); err != nil {
			return err
		}
	}
	if err := s.compareBucket(ctx, m); err != nil {
		return err
	}
	s.mu.Lock()
	s.agreed = true
	s.mu.Unlock()
	return nil
}

// compareBucket compares the bucket with a META row, which may have been read some
// time ago.
func (s *store) compareBucket(ctx context.Context, m *meta) error {
	var newest uint64
	var newestCommit span
	prefix := recordPrefix(s.id)
	after := prefix
	if m.tip.Seq > maxRows { // the records of one transaction may begin before the tip, and end behind it
		after = recordKey(s.id, span{m.tip.Seq - maxRows, m.tip.Seq - maxRows})
	}
	for name, err := range s.log.records.listAfter(ctx, prefix, after) {
		if err != nil {
			return fmt.Errorf("bucket %s: %w", s.log.records.bucket, awsconf.Explain(err))
		}
		of, ok := parseSpan(strings.TrimPrefix(name, prefix))
		if !ok || name != recordKey(s.id, of) {
			continue // not mneme's
		}
		newest = max(newest, of.last)
		if of.first <= m.tip.Seq && m.tip.Seq <= of.last {
			newestCommit = of
		}
	}
	if newestCommit.last != 0 {
		if err := s.compareRecord(ctx, newestCommit, m.tip); err != nil {
			return err
		}
	}
	if newest > m.tip.Seq {
		now, err := s.log.table.meta(ctx, s.id)
		if err != nil {
			return err
		}
		if newest > now.tip.Seq {
			return fmt.Errorf("%w: the bucket has commit %d, and the table ends with commit %d, as when it was restored to an earlier time",
				ErrIndex, newest, now.tip.Seq)
		}
	}
	return nil
}

// ErrIndex is the versionlog.ErrRewritten of a table that does not agree with its bucket.
// Rebuild brings it up to that, or tells why it cannot, once nothing writes to the store.
var ErrIndex error = indexError{}

// indexError is a versionlog.ErrRewritten that does not say so twice.
type indexError struct{}

func (indexError) Error() string { return versionlog.ErrRewritten.Error() }
func (indexError) Unwrap() error { return versionlog.ErrRewritten }

// compareRecord compares a record in the bucket with the tip. One that is damaged
// says nothing: fsck reports it.
func (s *store) compareRecord(ctx context.Context, of span, tip versionlog.Tip) error {
	data, err := s.log.records.get(ctx, recordKey(s.id, of))
	if err != nil {
		return err
	}
	for _, c := range copyOf("", of, s.id, data).commits {
		if c.seq == tip.Seq && c.digest != tip.Digest {
			return fmt.Errorf("%w: commit %d is %v in the bucket, and %.12s in the table", ErrIndex, c.seq, c, tip.Digest)
		}
	}
	return nil
}

// readMeta reads META, which must not lie behind what this Log has seen of the
// store: versionlog.ErrRewritten. ErrNotFound.
func (s *store) readMeta(ctx context.Context) (*meta, error) {
	s.mu.Lock()
	seen := s.newest
	if s.view != nil {
		seen = &meta{creation: s.view.meta.creation, tip: s.view.meta.tip}
	}
	s.mu.Unlock()
	m, err := s.log.table.meta(ctx, s.id)
	if err != nil {
		return nil, err
	}
	if seen != nil && seen.creation == m.creation &&
		(m.tip.Seq < seen.tip.Seq || m.tip.Seq == seen.tip.Seq && m.tip.Digest != seen.tip.Digest) {
		return nil, fmt.Errorf("%w: commit %d, %.12s, was in the table, which ends with commit %d, %.12s, now",
			ErrIndex, seen.tip.Seq, seen.tip.Digest, m.tip.Seq, m.tip.Digest)
	}
	s.mu.Lock()
	if s.newest == nil || s.newest.creation != m.creation || s.newest.tip.Seq < m.tip.Seq {
		s.newest = m
	}
	s.mu.Unlock()
	return m, nil
}

// stop ends the store for this Log, whose commits, and followers, are told why.
func (s *store) stop(cause error) {
	s.mu.Lock()
	s.stopLocked(cause)
	s.mu.Unlock()
	s.wake()
}

func (s *store) stopLocked(cause error) {
	if s.stopped != nil {
		return
	}
	s.stopped = fmt.Errorf("%w: %w; nothing more is written to the store", ErrIndex, cause)
	s.log.logger.Error("the store has two histories", "store", s.id, "err", s.stopped)
}

// stoppedBy returns why the store takes nothing more, nil while it does.
func (s *store) stoppedBy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}
