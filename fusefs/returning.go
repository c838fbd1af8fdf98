package fusefs

import (
	"runtime"
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
	erased chan struct{} // versions of a store were
	known  int           // files, to the kernel, since something has passed
	free   func()
}

const (
	// returnEvery is how often memory is returned at most of which the budget tells.
	returnEvery = 2 * time.Second
	// calm is for how long nothing must have passed, else.
	calm = time.Second
	// erasedWithin is for how long a redaction may still be under way when the mount hears
	// of it, also where one of the processes that follow the store must finish it.
	erasedWithin = 2 * time.Minute
	// manyKnown files leave enough for a collection.
	manyKnown = 512
)

func newReturning() returning {
	return returning{passed: make(chan struct{}, 1), erased: make(chan struct{}, 1), free: debug.FreeOSMemory}
}

// memoryPassed says that much has passed through by now.
func (r *returning) memoryPassed() {
	select {
	case r.passed <- struct{}{}:
	default:
	}
}

// versionsErased says that versions of a store were.
func (r *returning) versionsErased() {
	select {
	case r.erased <- struct{}{}:
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
	var again <-chan time.Time // what was read of the erased since is forgotten, too
	for {
		select {
		case <-fs.ctx.Done():
			return
		case <-fs.budget.fallen:
			fs.sleep(returnEvery) // more may be on its way
		case <-fs.returning.passed:
			fs.awaitCalm()
		case <-fs.returning.erased:
			fs.awaitCalm()
			again = time.After(erasedWithin)
			fs.clearErased()
		case <-again:
			again = nil
			fs.clearErased()
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

// clearErased lets go of what may hold texts that were erased, without anybody using it: the
// connections to the database, whose memory is unmapped then, the journal, which is rewritten, and
// pools, of which one collection leaves the rest to the next one, that of returning.free. What
// these free is overwritten in a process of mneme mount, which has GODEBUG=clobberfree=1; and
// fusedev wipes its buffers.
func (fs *fileSystem) clearErased() {
	for _, s := range fs.stores {
		if err := s.memory.Forget(); err != nil {
			fs.log.Warn("clear the memory of what was erased", "store", s.slug(), "err", err)
		}
	}
	fs.forgetErased()
	runtime.GC()
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
