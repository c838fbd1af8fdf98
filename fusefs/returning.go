package fusefs

import (
	"context"
	"runtime/debug"
	"time"

	"mneme/forget"
	"mneme/session/conflict"
)

// returning gives memory that has passed through back to the system: the garbage that the heads
// of a store leave when they have loaded, the lists that make the kernel know many files, and the
// contents that were fetched ahead for a program that reads a tree. The runtime would keep it for
// the next such time, for minutes, while an agent on the same machine has other uses for it.
// Giving it back takes a whole garbage collection, 50 ms of one processor in a store of 100,000
// memories, so it waits until all is calm.
type returning struct {
	passed chan struct{} // something has
	known  int           // files, to the kernel, since something has passed
	free   func()

	// follower clears memory of versions that were erased. The mount tells it of the commits that
	// it meets as it follows its stores, and of those that it has missed once it serves them.
	follower *forget.Follower
}

const (
	// returnEvery is how often memory is returned at most of which the budget tells.
	returnEvery = 2 * time.Second
	// calm is for how long nothing must have passed, else.
	calm = time.Second
	// manyKnown files leave enough for a collection.
	manyKnown = 512
)

func newReturning(fs *fileSystem) returning {
	return returning{
		passed: make(chan struct{}, 1), free: debug.FreeOSMemory,
		follower: forget.NewFollower(&forget.FollowerOptions{Kept: keptOf(fs), Clear: fs.forgetErased, Free: fs.returnNow, Logger: fs.log}),
	}
}

// keptOf returns what returns the kept conflicts of a store; nil: none are kept.
func keptOf(fs *fileSystem) func(storeID string) *conflict.Store {
	return func(storeID string) *conflict.Store {
		for _, s := range fs.stores {
			if s.id() == storeID {
				return s.kept
			}
		}
		return nil
	}
}

// missed does what following a redaction does for those before the mount began: it may have followed none of them.
func (s *store) missed(ctx context.Context) {
	s.fs.returning.follower.Missed(ctx, s.memory, s.fs.since)
}

// memoryPassed notes that memory has passed through.
func (r *returning) memoryPassed() {
	r.follower.Busy()
	select {
	case r.passed <- struct{}{}:
	default:
	}
}

// knownLocked notes that the kernel has come to know a file.
func (r *returning) knownLocked() {
	if r.known++; r.known == manyKnown {
		r.known = 0
		r.memoryPassed()
	}
}

// returnMemory gives the system back what is no longer held, until the mount ends.
func (fs *fileSystem) returnMemory() {
	for {
		select {
		case <-fs.ctx.Done():
			return
		case <-fs.budget.fallen:
			fs.sleep(returnEvery) // more may be on its way
		case <-fs.returning.passed:
			fs.awaitCalm()
		}
		if fs.ctx.Err() != nil {
			return
		}
		fs.returnNow()
	}
}

// returnNow gives the system back what is no longer held.
func (fs *fileSystem) returnNow() {
	fs.mu.Lock()
	fs.budget.most = fs.budget.held
	fs.mu.Unlock()
	fs.returning.free()
}

// awaitCalm returns when nothing has passed for a while, or when the mount ends.
func (fs *fileSystem) awaitCalm() {
	for {
		select {
		case <-fs.ctx.Done():
			return
		case <-fs.returning.passed:
		case <-time.After(calm):
			return
		}
	}
}

func (fs *fileSystem) sleep(d time.Duration) {
	select {
	case <-fs.ctx.Done():
	case <-time.After(d):
	}
}
