package fusefs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// A request that may have to wait runs beside its requester, who waits for it or for a
// signal.
//
//  1. waiting, reading: given up. The request's context ends; who shares a read with
//     others leaves it to them.
//  2. names: given up until the log is asked; then they go on, and the tree shows what
//     came of it.
//  3. saving: goes on without its requester, as at release: what cannot be committed is
//     kept.
//
// So nothing is left half done, and no commit becomes a lost reply because somebody has
// pressed a key. What goes on uses nothing of the request, whose buffers belong to the
// next one.
//
// Linux tells a file system of any signal, once for each request
// (fs/fuse/dev.c, request_wait_answer): of timers, of children that end, of the
// signals by which Go's scheduler interrupts its own threads. A program that does not
// expect EINTR for those would fail on every slow store. So a signal counts only if it
// is one by which somebody wants the program to stop, which /proc tells as pending; and
// since the kernel does not tell of a second one, the thread is looked at again and
// again. Where /proc does not show the thread, no signal counts.

// call is a request that runs beside its requester.
type call struct {
	ctx   context.Context // ends when the requester has gone, or the mount
	state atomic.Int32    // a callState
}

type callState = int32

const (
	waiting   callState = iota // the requester waits, and may go
	answering                  // it waits for the answer, to the end
	gone                       // it has gone
)

// answers reports whether the requester is still there, who then waits for the answer to
// the end. It is called right before what the kernel must hear of, such as a reference
// or a handle, and before the request's own buffers are used: when it is false, nothing
// of that is done.
func (c *call) answers() bool {
	return c.state.CompareAndSwap(waiting, answering) || c.state.Load() == answering
}

// abandon lets the requester go, and reports whether it could: not once the call answers.
func (c *call) abandon() bool { return c.state.CompareAndSwap(waiting, gone) }

// How long a request that a signal interrupts may take to end by itself, and how often a
// thread that one has interrupted is looked at.
const (
	graceful = 20 * time.Millisecond
	lookOver = 50 * time.Millisecond
)

// kernelName is a name in a directory, as the kernel has it.
type kernelName struct {
	dir  uint64
	name string
}

// tellUnheard has the kernel look names up again that a request may have changed whose
// requester has gone: it was told EINTR, and so has what was there before.
func (fs *fileSystem) tellUnheard(c *call, names ...kernelName) {
	if c.answers() {
		return
	}
	for _, at := range names {
		fs.notify.Name(at.dir, at.name)
		if canonical, err := memory.ParseName(at.name); err == nil && canonical != at.name {
			fs.notify.Name(at.dir, canonical)
		}
	}
}

// beside runs a request of a thread, and returns its answer, or EINTR if a signal
// interrupts the thread before there is one. Without a channel that could tell of a
// signal, the caller runs it itself.
func (fs *fileSystem) beside(cancel <-chan struct{}, thread uint32, do func(c *call) fuse.Status) fuse.Status {
	if cancel == nil {
		return do(&call{ctx: fs.ctx})
	}
	ctx, giveUp := context.WithCancel(fs.ctx)
	c, done := &call{ctx: ctx}, make(chan fuse.Status, 1)
	fs.tasks.Go(func() {
		defer giveUp()
		done <- do(c)
	})
	select {
	case status := <-done:
		return status
	case <-cancel:
	}
	for !fs.signalled(thread) {
		select {
		case status := <-done:
			return status
		case <-time.After(lookOver):
		}
	}
	giveUp()
	select {
	case status := <-done:
		return status
	case <-time.After(graceful):
	}
	if c.abandon() {
		return fuse.EINTR
	}
	return <-done
}
