package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// redactionTakes is how long the contents of a redaction may be there after its event.
const redactionTakes = 2 * time.Minute

// Blobs returns the blobs of a store, without those that were erased before the call:
// caches that may have these are emptied. It costs asking for the store's tip. Errors:
// versionlog.ErrNotFound, those of the media.
func (l *Library) Blobs(ctx context.Context, storeID string) (cas.Store, error) {
	blobs, err := l.blobs(storeID)
	if err != nil {
		return nil, err
	}
	tip, err := l.log.Tip(ctx, storeID)
	if errors.Is(err, versionlog.ErrNotFound) {
		l.ruling.offered.Delete(storeID)
		return nil, errors.Join(fmt.Errorf("store %s: %w", quote.Name(storeID), err), cas.Forget(blobs))
	}
	if err != nil {
		return nil, err
	}
	f := &l.ruling.fresh
	f.mu.Lock()
	was := f.stores[storeID]
	f.mu.Unlock()
	if was.until == tip.Seq && was.again.IsZero() && tip.Seq > 0 {
		return blobs, nil
	}
	erases, err := l.erasesSince(ctx, storeID, was.until)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	is := fresh{until: tip.Seq, again: was.again}
	if now.After(is.again) {
		is.again = time.Time{}
	}
	if erases {
		is.again = now.Add(redactionTakes)
	}
	if erases || !was.again.IsZero() || was.until > tip.Seq { // the last: another history is there
		if err := cas.Forget(blobs); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stores == nil {
		f.stores = map[string]fresh{}
	}
	f.stores[storeID] = is
	return blobs, nil
}

// erasesSince reports whether something was erased by commits above one, or since the library
// was opened.
func (l *Library) erasesSince(ctx context.Context, storeID string, after uint64) (bool, error) {
	for c, err := range l.log.CommitsBefore(ctx, storeID, 0, versionlog.Filter{}) {
		if err != nil {
			return false, err
		}
		if c.Seq <= after || after == 0 && l.ruling.fresh.opened.Sub(c.Time) > versionlog.MaxSkew {
			break
		}
		if c.Erases() {
			return true, nil
		}
	}
	return false, nil
}
