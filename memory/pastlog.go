package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"mneme/versionlog"
)

// pastLog is a log as it was right after a commit of one store, and is used for that store
// only. Its content never changes except by erasure, so a caller that waits for a commit
// never gets one.
type pastLog struct {
	versionlog.Log
	tip   versionlog.Tip // without Totals, and of a store in use
	state versionlog.State
	met   atomic.Uint64 // the newest commit of the log beneath that erased hears of no more
}

func newPastLog(ctx context.Context, log versionlog.Log, storeID string, seq uint64) (*pastLog, error) {
	now, err := log.Tip(ctx, storeID)
	if err != nil {
		return nil, err
	}
	state, err := log.At(ctx, storeID, seq)
	if err != nil {
		return nil, err
	}
	l := &pastLog{Log: log, state: state}
	l.met.Store(now.Seq)
	if seq == 0 {
		return l, nil
	}
	c, err := versionlog.CommitAt(ctx, log, storeID, seq)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("commit %d: %w", seq, versionlog.ErrNotFound)
	}
	l.tip = versionlog.Tip{Seq: c.Seq, Digest: c.Digest, Time: c.Time}
	return l, nil
}

func (l *pastLog) CreateStore(context.Context, versionlog.Store) error {
	return versionlog.ErrReadOnly
}
func (l *pastLog) DeleteStore(context.Context, string) error { return versionlog.ErrReadOnly }
func (l *pastLog) Commit(context.Context, string, *versionlog.Proposal) (*versionlog.Commit, error) {
	return nil, versionlog.ErrReadOnly
}

func (l *pastLog) Tip(context.Context, string) (versionlog.Tip, error) { return l.tip, nil }

func (l *pastLog) Head(ctx context.Context, _, path string) (versionlog.Version, error) {
	return l.state.Head(ctx, path)
}

func (l *pastLog) Heads(ctx context.Context, _, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return l.state.Heads(ctx, prefix, after)
}

func (l *pastLog) Children(ctx context.Context, _, dir string) iter.Seq2[versionlog.Version, error] {
	return l.state.Children(ctx, dir)
}

func (l *pastLog) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return firstVersion(l.PathHistory(ctx, storeID, path), path)
}

func (l *pastLog) Newest(ctx context.Context, storeID, memoryID string) (versionlog.Version, error) {
	return firstVersion(l.History(ctx, storeID, memoryID, 0), memoryID)
}

// firstVersion returns the first of versions. It returns versionlog.ErrNotFound with the
// text what if versions is empty.
func firstVersion(versions iter.Seq2[versionlog.Version, error], what string) (versionlog.Version, error) {
	for v, err := range versions {
		return v, err
	}
	return versionlog.Version{}, fmt.Errorf("%s: %w", what, versionlog.ErrNotFound)
}

func (l *pastLog) Version(ctx context.Context, storeID, id string) (versionlog.Version, error) {
	v, err := l.Log.Version(ctx, storeID, id)
	if err == nil && v.Seq > l.tip.Seq {
		return versionlog.Version{}, fmt.Errorf("version %s: %w", id, versionlog.ErrNotFound)
	}
	return v, err
}

// before is a bound of sequence numbers, 0 for none, that the end of the history bounds, too.
func (l *pastLog) before(seq uint64) uint64 {
	if seq == 0 {
		return l.tip.Seq + 1
	}
	return min(seq, l.tip.Seq+1)
}

func (l *pastLog) History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	return l.Log.History(ctx, storeID, memoryID, l.before(before))
}

func (l *pastLog) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range l.Log.PathHistory(ctx, storeID, path) {
			if (err != nil || v.Seq <= l.tip.Seq) && !yield(v, err) {
				return
			}
		}
	}
}

// erased waits for the next redaction that is made in the store, and returns its commit.
// Its Versions are those of the past that it has erased, in their current form. Only one
// caller may be in it at a time.
func (l *pastLog) erased(ctx context.Context, storeID string) (*versionlog.Commit, error) {
	for {
		if err := l.Log.Wait(ctx, storeID, l.met.Load()); err != nil {
			return nil, err
		}
		for c, err := range l.Log.Commits(ctx, storeID, l.met.Load()) {
			if err != nil {
				return nil, err
			}
			if !c.Erases() {
				l.met.Store(c.Seq)
				continue
			}
			of := *c
			for _, id := range c.Event.ErasedVersions() {
				v, err := l.Version(ctx, storeID, id)
				if errors.Is(err, versionlog.ErrNotFound) {
					continue // of later
				}
				if err != nil {
					return nil, err
				}
				of.Versions = append(of.Versions, v)
			}
			l.met.Store(c.Seq)
			return &of, nil
		}
	}
}

func (l *pastLog) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	switch {
	case seq == l.tip.Seq:
		return l.state, nil
	case seq > l.tip.Seq:
		return nil, fmt.Errorf("commit %d: %w; the store is shown after commit %d", seq, versionlog.ErrNotFound, l.tip.Seq)
	}
	return l.Log.At(ctx, storeID, seq)
}

func (l *pastLog) SeqAt(ctx context.Context, storeID string, at time.Time) (uint64, error) {
	if !at.Before(l.tip.Time) {
		return l.tip.Seq, nil
	}
	return l.Log.SeqAt(ctx, storeID, at)
}

func (l *pastLog) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return func(yield func(*versionlog.Commit, error) bool) {
		if after >= l.tip.Seq {
			return
		}
		for c, err := range l.Log.Commits(ctx, storeID, after) {
			if !yield(c, err) || err != nil || c.Seq == l.tip.Seq {
				return
			}
		}
	}
}

func (l *pastLog) CommitsBefore(ctx context.Context, storeID string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	return l.Log.CommitsBefore(ctx, storeID, l.before(before), f)
}

func (l *pastLog) Wait(ctx context.Context, _ string, after uint64) error {
	if after < l.tip.Seq {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (l *pastLog) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{
		Near:     l.Log.Capabilities().Near,
		KnownTip: func(string) (versionlog.Tip, bool) { return l.tip, true },
	}
}
