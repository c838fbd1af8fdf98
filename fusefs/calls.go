package fusefs

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// call is a request that runs next to its requester.
type call struct {
	ctx   context.Context // ends when the requester has gone, or the mount
	state atomic.Int32    // a callState

	cancel <-chan struct{} // closed when a signal comes to the requester; nil: that does not matter
	thread uint32          // the requester
	giveUp context.CancelFunc
	over   chan struct{} // closed when the call is over
}

type callState = int32

const (
	waiting   callState = iota // the requester waits, and may go
	answering                  // it waits for the answer, to the end
	gone                       // it has gone
)

// answers reports whether the requester is still there; the requester then waits for the answer
// to the end. It is called right before anything that the kernel must hear of, such as a
// reference or a handle, and before the request's own buffers are used: when it is false, none of
// that is done.
func (c *call) answers() bool {
	return c.state.CompareAndSwap(waiting, answering) || c.state.Load() == answering
}

// abandon lets the requester go, and reports whether it could: not once the call answers.
func (c *call) abandon() bool { return c.state.CompareAndSwap(waiting, gone) }

// run returns the answer of a request.
func (c *call) run(do func(c *call) fuse.Status) fuse.Status {
	defer c.giveUp()
	defer close(c.over)
	if status := do(c); c.answers() {
		return status
	}
	return fuse.EINTR
}

// calls are the calls that run in the goroutines that answer them: to start another one for each,
// and to wake a thread for it, takes a third as long as a commit. None is on the list whose
// requester was interrupted before.
type calls struct {
	told    bool // Interrupted is called; set before the first request
	mu      sync.Mutex
	waiting map[*call]struct{} // guarded by mu
}

// add puts a call on the list, unless it was interrupted already, or the kernel's interrupts are
// not reported. It reports whether it did.
func (l *calls) add(c *call) bool {
	if !l.told {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.isInterrupted() {
		return false
	}
	if l.waiting == nil {
		l.waiting = map[*call]struct{}{}
	}
	l.waiting[c] = struct{}{}
	return true
}

func (l *calls) remove(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, c)
}

// interrupted takes the call off the list whose requester has just been interrupted; nil: there is none.
func (l *calls) interrupted() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.waiting {
		if c.isInterrupted() {
			delete(l.waiting, c)
			return c
		}
	}
	return nil
}

func (c *call) isInterrupted() bool {
	select {
	case <-c.cancel:
		return true
	default:
		return false
	}
}
