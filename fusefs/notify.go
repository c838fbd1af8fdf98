package fusefs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// notifier tells the kernel what it must forget, from a goroutine of its own:
// the kernel takes the locks of the inodes concerned, which the very request
// that a handler is working on may hold. Handlers therefore only enqueue, after
// the new state is published, and never wait.
type notifier struct {
	done chan struct{}

	mu       sync.Mutex // guards what follows
	more     sync.Cond  // pending or closed has changed
	progress sync.Cond  // sent or closed has changed
	pending  []notice
	queued   uint64 // how many notices were ever enqueued
	sent     uint64 // how many of them the kernel has been given
	closed   bool
}

// notice is one notification: of a name in a directory when name is set, else
// of an inode's attributes and, with pages, its content.
type notice struct {
	node  uint64
	name  string
	pages bool
	tries int // how often the kernel did not know the inode
}

func newNotifier() *notifier {
	q := &notifier{done: make(chan struct{})}
	q.more.L, q.progress.L = &q.mu, &q.mu
	return q
}

// enqueue returns the notice's number, for await.
func (q *notifier) enqueue(n notice) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, n)
	q.queued++
	q.more.Signal()
	return q.queued
}

// await returns when the notice of that number has been sent, or after a time
// in which a working kernel takes thousands.
func (q *notifier) await(number uint64) {
	const patience = time.Second
	q.mu.Lock()
	defer q.mu.Unlock()
	waitFor(&q.progress, patience, func() bool { return q.sent >= number || q.closed })
}

// told reports whether the notice of that number has been sent.
func (q *notifier) told(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent >= number
}

// entry makes the kernel look name up in dir again, and read dir again.
// Caller holds fs.mu.
func (q *notifier) entry(dir *node, name string) {
	dir.touch(dir.mtime)
	if dir.lookups > 0 {
		q.enqueue(notice{node: dir.id, name: name})
		q.enqueue(notice{node: dir.id, pages: true}) // of a directory they are its cached listing
	}
}

// attributes makes the kernel ask for n's attributes again.
// Caller holds fs.mu.
func (q *notifier) attributes(n *node) {
	if n.lookups > 0 {
		q.enqueue(notice{node: n.id})
	}
}

// content makes the kernel read n again: by a notice, for those who have it
// open, and at the next open, which may come before the notice gets through.
// Caller holds fs.mu.
func (q *notifier) content(n *node) {
	n.reread = true
	if n.lookups > 0 {
		n.notice = q.enqueue(notice{node: n.id, pages: true})
	}
}

// run sends notices until close, holding pushing while it drops pages.
func (q *notifier) run(server *fuse.Server, pushing *sync.Mutex) {
	defer close(q.done)
	for {
		q.mu.Lock()
		for len(q.pending) == 0 && !q.closed {
			q.more.Wait()
		}
		batch := q.pending
		q.pending = nil
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return
		}
		for _, n := range batch {
			if n.pages {
				pushing.Lock()
			}
			q.send(server, n)
			if n.pages {
				pushing.Unlock()
			}
			q.mu.Lock()
			q.sent++
			q.progress.Broadcast()
			q.mu.Unlock()
		}
	}
}

// send gives the kernel one notice. About a name it does not know, and after an
// unmount, it has nothing to forget. An inode that it does not know it may be
// about to: the reply that tells of it, with what was true before, is on its
// way, so the notice is repeated.
func (q *notifier) send(server *fuse.Server, n notice) {
	const retries, pause = 4, 5 * time.Millisecond
	if n.name != "" {
		_ = server.EntryNotify(n.node, n.name)
		return
	}
	offset := int64(-1) // attributes only
	if n.pages {
		offset = 0
	}
	if server.InodeNotify(n.node, offset, 0) == fuse.ENOENT && n.tries < retries {
		n.tries++
		time.AfterFunc(pause<<(2*n.tries), func() { q.enqueue(n) })
	}
}

// close ends run. What is pending is dropped: the mount is gone.
func (q *notifier) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.progress.Broadcast()
	q.mu.Unlock()
	<-q.done
}
