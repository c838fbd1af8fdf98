package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"sync"
	"time"

	"mneme/versionlog"
	"mneme/versionlog/snapshot"
)

// At returns the store as it was after a commit, made of the newest snapshot up to that
// commit, on this machine or in the bucket, and of the commits since: mostly fewer than
// Log.distance. Without a snapshot it reads the history up to that commit. It does the same
// for a commit before the newest redaction: a snapshot of that time may have erased
// versions, and the commits after it do not have the paths of those.
func (l *Log) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	var m *meta
	err := call(ctx, func(ctx context.Context) (err error) {
		m, err = l.table.meta(ctx, storeID)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case seq > m.tip.Seq:
		return nil, fmt.Errorf("store %s: commit %d: %w", storeID, seq, versionlog.ErrNotFound)
	}
	if seq < m.redacted {
		return l.replay(ctx, m, seq)
	}
	s := l.store(storeID)
	saved := s.snapshotBefore(ctx, m.redacted, seq)
	if distance := l.distance; seq >= distance && (saved == nil || saved.Tip.Seq < seq-seq%distance) {
		inBucket, _, err := l.before(ctx, shared{l.records, storeID}, m.redacted, seq)
		if err != nil {
			l.logger.Warn("the snapshots in the bucket are of no use, reading the history", "store", storeID, "op", "at", "err", err)
		} else if inBucket != nil && (saved == nil || saved.Tip.Seq < inBucket.Tip.Seq) {
			saved = inBucket
		}
	}
	if saved == nil {
		return l.replay(ctx, m, seq)
	}
	state, err := saved.At(seq, l.commits(ctx, m, max(saved.Tip.Seq, 1)-1, seq))
	switch {
	case errors.Is(err, snapshot.ErrOtherHistory):
		return l.replay(ctx, m, seq)
	case err != nil:
		return nil, err
	}
	p := &paged{log: l, meta: m, seq: seq, pages: state}
	return versionlog.Sorted(p.from), nil
}

func (l *Log) replay(ctx context.Context, m *meta, seq uint64) (versionlog.Sorted, error) {
	return versionlog.Replay(seq, l.commits(ctx, m, 0, seq))
}

// paged is a state whose pages are read when they are needed: where one turns out to be
// damaged or gone, the history tells.
type paged struct {
	log   *Log
	meta  *meta
	seq   uint64
	pages versionlog.Sorted

	mu       sync.Mutex // held while the history is read
	replayed versionlog.Sorted
}

func (p *paged) from(ctx context.Context, path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range p.pages(ctx, path) {
			switch {
			case err != nil && ctx.Err() == nil:
				p.rest(ctx, path, err, yield)
				return
			case !yield(v, err) || err != nil:
				return
			}
			path = v.Path + "\x00"
		}
	}
}

// rest yields from the history what the pages do not tell.
func (p *paged) rest(ctx context.Context, path string, cause error, yield func(versionlog.Version, error) bool) {
	p.mu.Lock()
	if p.replayed == nil {
		p.log.logger.Warn("a snapshot in the bucket is damaged, reading the history", "store", p.meta.ID, "op", "at", "err", cause)
		var err error
		if p.replayed, err = p.log.replay(ctx, p.meta, p.seq); err != nil {
			p.mu.Unlock()
			yield(versionlog.Version{}, err)
			return
		}
	}
	replayed := p.replayed
	p.mu.Unlock()
	for v, err := range replayed(ctx, path) {
		if !yield(v, err) {
			return
		}
	}
}

// SeqAt returns the newest commit that was made at a time or before. The times of commits
// never decrease, so it reads a few rows.
func (l *Log) SeqAt(ctx context.Context, storeID string, at time.Time) (seq uint64, err error) {
	tip, err := l.Tip(ctx, storeID)
	if err != nil || !tip.Time.After(at) {
		return tip.Seq, err
	}
	later := sort.Search(int(tip.Seq-1), func(i int) bool { // the tip is
		if err != nil {
			return true
		}
		var c *versionlog.Commit
		err = call(ctx, func(ctx context.Context) (err error) {
			c, err = l.commitAt(ctx, storeID, uint64(i)+1)
			return err
		})
		return err != nil || c.Time.After(at)
	})
	return uint64(later), err
}
