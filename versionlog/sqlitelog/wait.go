package sqlitelog

import (
	"context"
	"time"

	"mneme/versionlog"
)

// Wait returns when the store has, or may have, a commit above after: at once
// for commits of this Log, within milliseconds for those of others on the same
// directory, within Options.Refresh where file events are not to be had.
func (l *Log) Wait(ctx context.Context, storeID string, after uint64) error {
	return l.wait(ctx, storeID, after, func() bool { return false })
}

// Next is one of the log's Capabilities. Commits of this Log are handed out as they were made,
// and shared by all followers: callers must not change them.
func (l *Log) Next(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
	for {
		var own []*versionlog.Commit
		err := l.wait(ctx, storeID, after, func() bool {
			own = l.recent.above(storeID, after)
			return own != nil
		})
		if own != nil || err != nil {
			return own, err
		}
		var read []*versionlog.Commit
		for c, err := range l.Commits(ctx, storeID, after) {
			if err != nil {
				return read, err
			}
			if c.Erases() { // by another process
				l.recent.forget(storeID)
				l.packer.redacted()
			}
			if read = append(read, c); len(read) == pageRecords {
				break
			}
		}
		if read != nil {
			return read, nil
		}
	}
}

// wait is Wait, which ends as soon as known knows of a commit above after.
func (l *Log) wait(ctx context.Context, storeID string, after uint64, known func() bool) error {
	timer := time.NewTimer(l.refresh)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// First ask to be told, then look, then sleep: a commit made in
		// between is either seen or told.
		changed := l.changes.next()
		if known() {
			return nil
		}
		s, err := l.store(ctx, storeID)
		if err != nil {
			return err
		}
		if s.tip.Seq > after {
			return nil
		}
		timer.Reset(l.refresh)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-timer.C:
		}
	}
}
