package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/versionlog"
)

// Capabilities has Fits, Left, ErasesContents, where it has Options.Blobs, Purge, Unpurged, Next and Clock.
func (l *Log) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{Fits: fits, Left: l.left, ErasesContents: l.blobs != nil, Purge: l.Purge, Unpurged: l.unpurged, Next: l.Next, Clock: l.commonClock}
}

// fits returns the error of a proposal that no transaction has room for.
func fits(p *versionlog.Proposal) error {
	if err := validate(p); err != nil || p.Finished == nil {
		return err
	}
	return newBatch(nil).append(&request{proposal: p}, p.Finished)
}

// left returns ErrLeft when a deletion of a store was interrupted, and is not finished.
func (l *Log) left(ctx context.Context, id string) error {
	return call(ctx, func(ctx context.Context) error {
		if _, err := l.table.meta(ctx, id); !errors.Is(err, versionlog.ErrNotFound) {
			return err
		}
		switch err := l.mayRemoveRest(ctx, id); {
		case errors.Is(err, versionlog.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("store %s: %w", id, ErrLeft)
	})
}

// commonClock is one of the log's Capabilities: the clock of DynamoDB as of its last answer.
func (l *Log) commonClock() (now time.Time, ahead time.Duration) {
	return l.clock.Now(), l.clock.Ahead()
}
