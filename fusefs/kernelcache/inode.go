package kernelcache

import (
	"context"
	"sync"
	"sync/atomic"

	"mneme/memory"
)

// Inode is what the kernel has of one file or directory, and has been told of it. Its zero value
// is of one that the kernel does not know.
//
// The mount's lock guards it, as it guards the entry that has it: except the atomic fields, and
// AwaitPushes, which takes the lock itself, fields and methods are used under that lock.
//
// # Pages
//
// The kernel keeps the pages of a file until it is told to drop them. Another session's version
// of a file gets an inode of its own, so that the content of an inode changes by the mount's own
// writers alone, with few exceptions (a write that was refused, for one). Then the pages are
// outdated: a notice says so to programs that have the file open, and the next open has the
// kernel drop them, which may come before the notice gets through.
//
// # Pushes
//
// What was fetched ahead is pushed: put into the page cache without a request. A push must not
// replace what a program has just written. An inode that was opened for writing once therefore
// gets no more pushes, and the first such open waits for those under way.
type Inode struct {
	Lookups   uint64  // references that the kernel holds
	Looked    Instant // when it got the last of them
	Respelled bool    // of a directory: a name in it, since it was last opened, so that the kernel's listing is outdated

	outdated bool // the kernel's pages are
	written  bool // the file was opened for writing, or truncated

	// ReadBelow says that a file in the directory was read since the directory was last listed.
	// A read makes the kernel doubt the file's time of access, and the next stat asks for it; a
	// listing that is not cached renews the attributes of all files with one request.
	ReadBelow atomic.Bool

	asked atomic.Int64          // Instant when the directory was last listed, or the file's bytes were last asked for; 0: never, of this version
	ahead atomic.Pointer[fetch] // of the file's bytes, before any program has read them

	aside *aside // nil: nothing of it is set
}

// aside holds the fields that few inodes need, of the many that are in memory when a program
// lists a store.
type aside struct {
	birth      int64         // see Birth
	nameNotice uint64        // see NameNotice
	notice     uint64        // number of the notice that says that the pages are outdated
	pushes     int           // under way
	pushed     chan struct{} // closed when none is left; nil while nothing waits for that
}

// nothingAside is what most inodes have. It does not change.
var nothingAside = &aside{}

// few returns what c has aside, to be looked at.
func (c *Inode) few() *aside {
	if c.aside == nil {
		return nothingAside
	}
	return c.aside
}

// setAside returns what c has aside, for a change.
func (c *Inode) setAside() *aside {
	if c.aside == nil {
		c.aside = &aside{}
	}
	return c.aside
}

// Birth returns the time of creation that the kernel was told last, in nanoseconds since 1970; 0:
// none.
func (c *Inode) Birth() int64 { return c.few().birth }

// SetBirth notes the time of creation that the kernel is told.
func (c *Inode) SetBirth(nanos int64) {
	if nanos != c.Birth() {
		c.setAside().birth = nanos
	}
}

// NameNotice returns the number of the notice that tells of the inode's name, if it took
// another's place; 0: the kernel need not be told.
func (c *Inode) NameNotice() uint64 { return c.few().nameNotice }

// SetNameNotice notes that number.
func (c *Inode) SetNameNotice(number uint64) {
	if number != c.NameNotice() {
		c.setAside().nameNotice = number
	}
}

// Outdate notes that the kernel's pages of the inode of that number are outdated, and has the
// kernel told if it knows the inode. It returns the number of the notice that tells it last, which
// is 0 if there is none.
func (c *Inode) Outdate(q *Notices, inode uint64) (notice uint64) {
	c.outdated = true
	if c.Lookups > 0 {
		c.setAside().notice = q.Content(inode)
	}
	return c.few().notice
}

// Outdated reports whether the kernel's pages are outdated, and have not been dropped at an open.
func (c *Inode) Outdated() bool { return c.outdated }

// Misled reports whether the kernel takes outdated pages for good ones: it has not taken in yet
// that they are outdated.
func (c *Inode) Misled(q *Notices) bool { return c.outdated && !q.Told(c.few().notice) }

// Opened notes that a program has opened the file. If the pages are outdated, the reply says that
// the kernel must drop them. The last argument says that it has dropped them automatically, since
// the file is truncated.
func (c *Inode) Opened(q *Notices, anew bool) {
	if anew || q.Told(c.few().notice) {
		c.outdated = false
	}
}

// Supersede notes that the file has another content than the one that was fetched.
func (c *Inode) Supersede() { c.asked.Store(0) }

// Listed notes that a program lists the directory.
func (c *Inode) Listed() { c.asked.Store(int64(Now())) }

// Write notes that the file's pages belong to a program that writes them: from now on the inode
// gets no pushes.
func (c *Inode) Write() { c.written = true }

// Pushing reports whether a push into the inode is under way.
func (c *Inode) Pushing() bool { return c.few().pushes > 0 }

// Idle reports whether the kernel does not know the inode, and nothing is fetched ahead or pushed
// of it: then it is as good as a new one.
func (c *Inode) Idle() bool { return c.Lookups == 0 && !c.Pushing() && c.ahead.Load() == nil }

// AwaitPushes is Write, and returns when no push is under way any longer, or with ctx, whose
// error it returns then. It takes the mount's lock, which the caller does not hold. There is no
// new push afterwards; a caller that finds the inode by a name looks again, under the lock, which
// one it is.
func (c *Inode) AwaitPushes(ctx context.Context, mount sync.Locker) error {
	mount.Lock()
	c.Write()
	if !c.Pushing() {
		mount.Unlock()
		return nil
	}
	if c.aside.pushed == nil {
		c.aside.pushed = make(chan struct{})
	}
	over := c.aside.pushed
	mount.Unlock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginPush counts a push into the inode, if it may have one.
func (c *Inode) beginPush() bool {
	if c.Lookups == 0 || c.written {
		return false
	}
	c.setAside().pushes++
	return true
}

func (c *Inode) endPush() {
	if c.aside.pushes--; c.aside.pushes > 0 {
		return
	}
	if c.aside.pushed != nil {
		close(c.aside.pushed)
		c.aside.pushed = nil
	}
	if *c.aside == *nothingAside { // a walk pushes every file once
		c.aside = nil
	}
}

// Node is a file or directory of a Source, which is equal to itself alone.
type Node interface {
	Number() uint64 // of its inode
	IsDir() bool
	Cache() *Inode
}

// fetch is one file's, for a walk. Its bytes are set before done is closed, and
// do not change after.
type fetch struct {
	node Node
	walk *walk
	head *memory.Head
	done chan struct{} // of all that is read together
	data []byte        // nil: it could not be read, and a reader meets the error
}

// bytesOf returns what was fetched of a version, or nil. For a batch that is under way it waits,
// unless ctx ends. A single fetch under way is left: its reader joins it in the cache of the blob
// store, and keeps it going when the walk ends.
func (f *fetch) bytesOf(ctx context.Context, head *memory.Head) []byte {
	if f.walk.batch > 1 {
		select {
		case <-f.done:
		case <-ctx.Done():
		}
	}
	if f.head != head || !f.ended() {
		return nil
	}
	return f.data
}

// ended reports whether the fetch has ended.
func (f *fetch) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}
