package gateway

import (
	"context"
	"slices"
	"sync"

	"mneme/versionlog"
)

// feed is the log's knowledge of new commits of a store. However many callers wait for one, one
// request at a time asks the server, which answers when a new commit exists.
//
//   - A waiter is in waiters until it is told: by the poll, by its error, or by a call that came
//     upon a later commit. A caller that waits for an earlier commit than the poll asks for
//     restarts the poll.
//   - The poll runs as long as a caller waits, and once more: a follower comes back.
//   - recent are the last commits that were seen, without gaps, so that a process that follows
//     and commits need not ask for them.
type feed struct {
	ask  func(ctx context.Context, after uint64) ([]recorded, error)
	life context.Context // of the poll
	work *sync.WaitGroup // of which it is

	mu      sync.Mutex // guards the fields below
	known   uint64     // a commit that the store has
	recent  []recorded
	waiters map[*waiter]bool
	polling bool
	after   uint64             // that the poll asks for
	restart context.CancelFunc // ends the request of the poll
}

// waiter waits for a commit above one.
type waiter struct {
	after uint64
	told  chan error // has room for one
}

// recorded is a commit whose record has some bytes.
type recorded struct {
	*versionlog.Commit
	bytes int
}

func commitsOf(some []recorded) []*versionlog.Commit {
	var all []*versionlog.Commit
	for _, one := range some {
		all = append(all, one.Commit)
	}
	return all
}

// The most that is kept of recent commits.
const (
	maxRecent         = 256
	maxRecentVersions = 4096
	maxRecentBytes    = 4 << 20
)

func newFeed(life context.Context, work *sync.WaitGroup, ask func(context.Context, uint64) ([]recorded, error)) *feed {
	return &feed{ask: ask, life: life, work: work, waiters: map[*waiter]bool{}}
}

// saw notes that the store has a commit.
func (f *feed) saw(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sawLocked(seq)
}

// add notes a commit that was just acknowledged.
func (f *feed) add(c recorded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Changes() {
		f.addLocked(c)
	}
	f.sawLocked(c.Seq)
}

func (f *feed) sawLocked(seq uint64) {
	f.known = max(f.known, seq)
	for w := range f.waiters {
		if w.after < f.known {
			f.tellLocked(w, nil)
		}
	}
}

func (f *feed) tellLocked(w *waiter, err error) {
	delete(f.waiters, w)
	w.told <- err
}

// forget is called when the store was deleted, which the poll is told by the server.
func (f *feed) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.recent = 0, nil
}

// addLocked keeps a commit, if it follows the last one.
func (f *feed) addLocked(c recorded) {
	if c.Erases() { // the kept commits are not of the current history
		f.recent = nil
		return
	}
	if n := len(f.recent); n > 0 {
		switch last := f.recent[n-1]; {
		case c.Seq <= last.Seq:
			return
		case c.Seq != last.Seq+1 || c.Prev != last.Digest:
			f.recent = nil
		}
	}
	f.recent = append(f.recent, c)
	versions, bytes := 0, 0
	for i := len(f.recent) - 1; i >= 0; i-- {
		versions += len(f.recent[i].Versions)
		bytes += f.recent[i].bytes
		if versions > maxRecentVersions || bytes > maxRecentBytes || len(f.recent)-i > maxRecent {
			f.recent = slices.Clone(f.recent[i+1:])
			break
		}
	}
}

// above returns the recent commits above one, if they are all that there are up to the last.
func (f *feed) above(after uint64) (commits []*versionlog.Commit, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range f.recent {
		if c.Seq == after+1 {
			return commitsOf(f.recent[i:]), true
		}
	}
	return nil, f.known > after
}

// wait returns when there is a commit above one.
func (f *feed) wait(ctx context.Context, after uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{after, make(chan error, 1)}
	f.mu.Lock()
	if f.known > after {
		f.mu.Unlock()
		return nil
	}
	f.waiters[w] = true
	switch {
	case !f.polling:
		f.polling = true
		f.work.Go(f.poll)
	case f.after > after && f.restart != nil:
		f.restart()
	}
	f.mu.Unlock()
	select {
	case err := <-w.told:
		return err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiters, w)
	return ctx.Err()
}

// pollAnew ends the request of the poll, which goes on with another one.
func (f *feed) pollAnew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.restart != nil {
		f.restart()
	}
}

// poll asks the server for commits until no caller waits for any.
func (f *feed) poll() {
	for {
		ctx, after, on := f.begin()
		if !on {
			return
		}
		commits, err := f.ask(ctx, after)
		if !f.end(ctx, commits, err) {
			return
		}
	}
}

// begin returns the sequence number after which the next request of the poll asks.
func (f *feed) begin() (ctx context.Context, after uint64, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiters) == 0 || f.life.Err() != nil {
		f.polling = false
		for w := range f.waiters {
			f.tellLocked(w, f.life.Err())
		}
		return nil, 0, false
	}
	first := true
	for w := range f.waiters {
		if first || w.after < after {
			after, first = w.after, false
		}
	}
	f.after = max(after, f.known)
	ctx, f.restart = context.WithCancel(f.life)
	return ctx, f.after, true
}

// end reports the result of a request to the waiters.
func (f *feed) end(ctx context.Context, commits []recorded, err error) (on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	restarted := ctx.Err() != nil
	f.restart()
	f.restart = nil
	for _, c := range commits {
		f.addLocked(c)
		f.sawLocked(c.Seq)
	}
	if err != nil && (!restarted || f.life.Err() != nil) {
		for w := range f.waiters {
			f.tellLocked(w, err)
		}
		f.polling = false
		return false
	}
	return true
}

// next is that of versionlog.Capabilities. Commits are shared by all who follow.
func (f *feed) next(ctx context.Context, after uint64) ([]*versionlog.Commit, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		commits, behind := f.above(after)
		switch {
		case commits != nil:
			return commits, nil
		case behind:
			commits, err := f.ask(ctx, after)
			if len(commits) > 0 || err != nil {
				return commitsOf(commits), err
			}
		default:
			if err := f.wait(ctx, after); err != nil {
				return nil, err
			}
		}
	}
}
