package fusefs

import (
	"runtime/debug"
	"time"
)

// returning gives memory back to the system that has passed through: what the heads of a
// store leave when they have loaded, the lists that make the kernel know many files, and
// what was fetched ahead for whoever reads a tree. The runtime would keep it for the next
// such time, for minutes, beside an agent that has other uses for it. That takes a whole
// garbage collection, 50 ms of one processor in a store of 100,000 memories, so it waits
// until all is calm.
type returning struct {
	passed chan struct{} // something has
	known  int           // files, to the kernel, since then
	free   func()
}

const (
	// returnEvery is how often memory is returned at most of which the budget tells.
	returnEvery = 2 * time.Second
	// calm is for how long nothing must have passed, else.
	calm = time.Second
	// manyKnown files leave enough for a collection.
	manyKnown = 512
)

func newReturning() returning {
	return returning{passed: make(chan struct{}, 1), free: debug.FreeOSMemory}
}

// memoryPassed says that much has passed through by now.
func (r *returning) memoryPassed() {
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
		fs.mu.Lock()
		fs.budget.most = fs.budget.held
		fs.mu.Unlock()
		fs.returning.free()
	}
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
