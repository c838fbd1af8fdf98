package fusefs

import (
	"context"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// A request that may have to wait runs next to its requester, which waits for it or for a signal.
// It runs in the goroutine that has read it; where a signal comes, another one tells the kernel
// that the requester may go.
//
//  1. waiting, reading: given up. The request's context ends; a request that shares a read with
//     others leaves the read to them.
//  2. names: given up until the log is asked; then they continue, and the tree shows the outcome.
//  3. saving: continues without its requester, as at release: bytes that cannot be committed are
//     kept.
//
// So nothing is left half done, and no commit becomes a lost reply because a user has pressed a
// key. A request that continues uses nothing of the FUSE request, which has its answer then.
//
// Linux tells a file system of any signal, once for each request (fs/fuse/dev.c,
// request_wait_answer): of timers, of children that end, of the signals by which Go's scheduler
// interrupts its own threads. A program that does not expect EINTR for those would fail on every
// slow store. So a signal counts only if it is one that is meant to stop the program, and /proc
// reports it as pending; and since the kernel does not tell of a second one, the thread is looked
// at again and again. Where /proc does not show the thread, no signal counts.

// These constants bound how long a request that a signal interrupts may take to end unaided, and
// how often a thread that one has interrupted is looked at.
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

// beside runs a request of a thread, and returns its answer. If a signal interrupts the thread
// before that, the kernel is told EINTR at once, and so is the caller, when it hears of anything.
// Without a channel that could tell of a signal, nothing interrupts the request.
func (fs *fileSystem) beside(cancel <-chan struct{}, thread uint32, do func(c *call) fuse.Status) fuse.Status {
	if cancel == nil {
		return do(&call{ctx: fs.ctx})
	}
	c := &call{cancel: cancel, thread: thread, over: make(chan struct{})}
	c.ctx, c.giveUp = context.WithCancel(fs.ctx)
	if fs.calls.add(c) {
		defer fs.calls.remove(c)
		return c.run(do)
	}
	done := make(chan fuse.Status, 1)
	fs.tasks.Go(func() { done <- c.run(do) })
	select {
	case status := <-done:
		return status
	case <-cancel:
	}
	if fs.letGo(c) {
		return fuse.EINTR
	}
	return <-done
}

// letGo reports whether the requester of a call that was interrupted may go. It waits for a signal
// that counts, or for the end of the call.
func (fs *fileSystem) letGo(c *call) bool {
	for !fs.signalled(c.thread) {
		select {
		case <-c.over:
			return false
		case <-time.After(lookOver):
		}
	}
	c.giveUp()
	select {
	case <-c.over:
		return false
	case <-time.After(graceful):
	}
	return c.abandon()
}

// Interrupted implements fusedev.Inline.
func (fs *fileSystem) Interrupted(answer func(fuse.Status)) {
	if c := fs.calls.interrupted(); c != nil {
		fs.tasks.Go(func() {
			if fs.letGo(c) {
				answer(fuse.EINTR)
			}
		})
	}
}
