package memory

import (
	"context"
	"sync"

	"mneme/versionlog"
)

// followings are waits for the next commits of stores. All who wait for the same share one: a log
// may look for commits now and then for each who waits.
type followings struct {
	mu   sync.Mutex // guards the fields below
	open map[followed]*following
}

// followed is the commits above one, for which callers wait.
type followed struct {
	store string
	after uint64
}

// following is a wait that is under way.
type following struct {
	waiters int                // guarded by followings.mu
	cancel  context.CancelFunc // called when no caller waits any longer
	done    chan struct{}      // closed when the fields below are set
	commits []*versionlog.Commit
	err     error
}

type nextCommits = func(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error)

// next is that of versionlog.Capabilities, of which next is that of the log.
func (f *followings) next(ctx context.Context, storeID string, after uint64, next nextCommits) ([]*versionlog.Commit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	what := followed{storeID, after}
	one := f.join(ctx, what, next)
	select {
	case <-one.done:
		return one.commits, one.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.waiters--; one.waiters == 0 {
		one.cancel()
		f.endLocked(what, one)
	}
	return nil, ctx.Err()
}

func (f *followings) join(ctx context.Context, what followed, next nextCommits) *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.open[what]
	if one == nil {
		one = &following{done: make(chan struct{})}
		ctx, one.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if f.open == nil {
			f.open = map[followed]*following{}
		}
		f.open[what] = one
		go func() {
			defer one.cancel()
			commits, err := next(ctx, what.store, what.after)
			f.mu.Lock()
			f.endLocked(what, one)
			f.mu.Unlock()
			one.commits, one.err = commits, err
			close(one.done)
		}()
	}
	one.waiters++
	return one
}

// endLocked has those who come from now on begin another wait.
func (f *followings) endLocked(what followed, one *following) {
	if f.open[what] == one {
		delete(f.open, what)
	}
}
