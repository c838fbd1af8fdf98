package forget

import (
	"context"
	"errors"
	"time"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

const (
	// lookEvery is how often stores are asked about redactions whose log is not near, and what a process has missed
	// is asked again while the store does not answer. retryAfterError is how soon a store that is followed is
	// asked again.
	lookEvery       = time.Minute
	retryAfterError = time.Second
	// maxFollowed is how many stores are followed. Others are asked.
	maxFollowed = 1000
)

// Met takes in a commit that the process has met as it follows a store.
func (f *Follower) Met(st *memory.Store, c *versionlog.Commit) {
	if !c.Erases() {
		return
	}
	if c.IsEvent(versionlog.EventRedacted) {
		redacted := map[string]bool{}
		for _, id := range c.Event.ErasedVersions() {
			redacted[id] = true
		}
		f.eraseKept(st, redacted)
	}
	f.tell(st)
}

// Told has memory cleared, since a request of this process has erased versions of a store.
func (f *Follower) Told(storeID string) {
	st, err := f.opts.Library.Open(f.life, storeID, nil)
	if err != nil { // such as when the process ends; else following tells of it
		return
	}
	f.tell(st)
}

// Missed does the remaining work for redactions before the time at which the process began
// with a store. While the store cannot be asked, it tries again, until ctx ends.
func (f *Follower) Missed(ctx context.Context, st *memory.Store, began time.Time) {
	for {
		err := f.look(ctx, st, began.Add(-ErasedWithin), true)
		if err == nil || ctx.Err() != nil {
			return
		}
		f.opts.Logger.Warn("look for redactions before the process began", "store", st.Info().Slug, "err", err)
		if errkind.Of(err) == errkind.Corrupt {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// Follow has a store followed until it is deleted or the follower ends. It is asked every minute instead if too many
// are followed or, without FollowFar, its log is on another machine.
func (f *Follower) Follow(storeID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stores[storeID] || f.life.Err() != nil {
		return
	}
	f.stores[storeID] = true
	isFollowed, began := len(f.stores) <= maxFollowed, time.Now()
	f.work.Go(func() { f.follow(storeID, isFollowed, began) })
}

func (f *Follower) follow(storeID string, isFollowed bool, began time.Time) {
	from, first := began.Add(-ErasedWithin), true
	for f.life.Err() == nil {
		next, err := f.watch(storeID, isFollowed, from, first)
		if errors.Is(err, versionlog.ErrNotFound) {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.stores, storeID)
			return
		}
		first = first && next.Equal(from)
		from = next
		pause := lookEvery
		if err != nil {
			pause = retryAfterError
		}
		select {
		case <-f.life.Done():
		case <-time.After(pause):
		}
	}
}

// watch looks for redactions of a store since a time, and returns from when on to look next. One that
// is followed it leaves when that fails.
func (f *Follower) watch(storeID string, isFollowed bool, from time.Time, first bool) (next time.Time, err error) {
	next = time.Now()
	st, err := f.opts.Library.Open(f.life, storeID, nil)
	if err != nil {
		return from, err
	}
	tip, err := st.Tip(f.life)
	if err == nil {
		err = f.look(f.life, st, from, first)
	}
	if err != nil {
		return from, err
	}
	if !isFollowed || !st.Near() && !f.opts.FollowFar {
		return next, nil
	}
	return next, st.Follow(f.life, tip, func(c *versionlog.Commit) error {
		f.Met(st, c)
		return nil
	})
}

// look takes in the redactions of a store since a time, of which all says whether kept conflicts may have versions
// that were redacted before.
func (f *Follower) look(ctx context.Context, st *memory.Store, since time.Time, all bool) error {
	erased, err := st.ErasedSince(ctx, since)
	if erased {
		f.tell(st)
	}
	if erased || all {
		err = errors.Join(err, f.eraseAllKept(ctx, st))
	}
	return err
}

// eraseAllKept erases the kept conflicts of all versions of a store that were ever redacted. The error is the store's.
func (f *Follower) eraseAllKept(ctx context.Context, st *memory.Store) error {
	kept := f.keptOf(st)
	if kept == nil {
		return nil
	}
	versions, err := kept.Versions()
	if err != nil {
		f.opts.Logger.Warn("look for versions that were redacted in conflicts", "store", st.Info().Slug, "err", err)
	}
	redacted, err := st.Redacted(ctx, versions)
	f.eraseKept(st, redacted)
	return err
}

// eraseKept erases the kept conflicts of which one side is one of some versions.
func (f *Follower) eraseKept(st *memory.Store, redacted map[string]bool) {
	kept := f.keptOf(st)
	if kept == nil || len(redacted) == 0 {
		return
	}
	if _, err := kept.Erase(redacted, func([]byte) bool { return false }); err != nil {
		f.opts.Logger.Error("erase conflicts of redacted versions", "store", st.Info().Slug, "err", err)
	}
}

func (f *Follower) keptOf(st *memory.Store) *conflict.Store {
	if f.opts.Kept == nil {
		return nil
	}
	return f.opts.Kept(st.Info().ID)
}
