package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// notifier tells the kernel what it must forget, from a goroutine of its own:
// the kernel takes the locks of the inodes concerned, which the very request
// that a handler is working on may hold. Handlers therefore only enqueue, after
// the new state is published, and never wait.
type notifier struct {
	mu      sync.Mutex
	more    sync.Cond
	pending []notice
	closed  bool
	done    chan struct{}
}

// notice is one notification: of a name in a directory when name is set, else
// of an inode's attributes and, with pages, its content.
type notice struct {
	node  uint64
	name  string
	pages bool
}

func newNotifier() *notifier {
	q := &notifier{done: make(chan struct{})}
	q.more.L = &q.mu
	return q
}

func (q *notifier) enqueue(n notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, n)
	q.more.Signal()
}

// entry makes the kernel look name up in dir again, and read dir again.
// Caller holds fs.mu.
func (q *notifier) entry(dir *node, name string) {
	if dir.lookups > 0 {
		q.enqueue(notice{node: dir.id, name: name})
		q.enqueue(notice{node: dir.id})
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
		q.enqueue(notice{node: n.id, pages: true})
	}
}

// run sends notices until close.
func (q *notifier) run(server *fuse.Server) {
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
			// The kernel answers ENOENT for what it does not know, and ENODEV
			// after an unmount: in both cases it has nothing to forget.
			switch {
			case n.name != "":
				_ = server.EntryNotify(n.node, n.name)
			case n.pages:
				_ = server.InodeNotify(n.node, 0, 0)
			default:
				_ = server.InodeNotify(n.node, -1, 0)
			}
		}
	}
}

// close ends run. What is pending is dropped: the mount is gone.
func (q *notifier) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	<-q.done
}
