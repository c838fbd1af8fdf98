package fusefs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/fusedev"
)

// notifier tells the kernel what it must forget, from a goroutine of its own:
// the kernel takes the locks of the inodes concerned, which the very request
// that a handler is working on may hold. Handlers therefore only enqueue, after
// the new state is published. Only those wait for whose request the kernel holds
// no such lock, and not for long.
type notifier struct {
	done chan struct{}

	mu       sync.Mutex // guards what follows
	more     sync.Cond  // pending or closed has changed
	progress sync.Cond  // sent or closed has changed
	pending  []notice
	queued   uint64          // how many notices were ever enqueued
	sent     uint64          // how many of them the kernel has been given
	late     map[uint64]bool // which of these, by number, it has yet to take in
	closed   bool
}

// A notice waits in the kernel for what a request holds: its file's pages while
// they are being read, its directory while a name in it changes. That can take
// as long as the network does, and the other files' notices do not wait for it.
const (
	noticePatience = 20 * time.Millisecond
	maxLate        = 64 // each holds a thread
)

// notice is one notification: of a name in a directory when name is set, else
// of an inode's attributes and, with pages, its content.
type notice struct {
	node  uint64
	name  string
	pages bool
	tries int // how often the kernel did not know the inode
}

func newNotifier() *notifier {
	q := &notifier{done: make(chan struct{}), late: map[uint64]bool{}}
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

// span is the notices that were enqueued after one and up to another.
type span struct{ after, upTo uint64 }

// idle reports whether the kernel has taken in all notices.
func (q *notifier) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent == q.queued && len(q.late) == 0
}

// newest returns the number of the notice that was enqueued last.
func (q *notifier) newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}

// await returns when the kernel has taken in the notice of that number, or after
// a time in which a working kernel takes thousands.
func (q *notifier) await(number uint64) { q.awaitAll(span{number - 1, number}) }

// awaitAll is await for several.
func (q *notifier) awaitAll(s span) {
	const patience = time.Second
	if s.after >= s.upTo {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	waitFor(&q.progress, patience, func() bool { return q.sent >= s.upTo && !q.isLate(s) || q.closed })
}

// isLate reports whether the kernel has yet to take in one of these notices that
// it has been given. Caller holds q.mu.
func (q *notifier) isLate(s span) bool {
	for number := range q.late {
		if s.after < number && number <= s.upTo {
			return true
		}
	}
	return false
}

// told reports whether the notice of that number has been sent.
func (q *notifier) told(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent >= number && !q.late[number]
}

// entry makes the kernel look name up in dir again, and read dir again. It
// returns the number of the first notice; 0 when none is needed. Caller holds
// fs.mu.
func (q *notifier) entry(dir *node, name string) (number uint64) {
	dir.touch(dir.mtime)
	if dir.lookups > 0 {
		number = q.enqueue(notice{node: dir.id, name: name})
		q.enqueue(notice{node: dir.id, pages: true}) // of a directory they are its cached listing
	}
	return number
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

// run sends notices until close.
func (q *notifier) run(server *fusedev.Server) {
	defer close(q.done)
	var under sync.WaitGroup
	defer under.Wait()
	slots := make(chan struct{}, maxLate)
	for {
		q.mu.Lock()
		for len(q.pending) == 0 && !q.closed {
			q.more.Wait()
		}
		batch := q.pending
		q.pending = nil
		closed, sent := q.closed, q.sent
		q.mu.Unlock()
		if closed {
			return
		}
		for i, n := range batch {
			number := sent + uint64(i) + 1
			slots <- struct{}{}
			taken := make(chan struct{})
			under.Go(func() {
				q.send(server, n)
				close(taken)
				q.taken(number)
				<-slots
			})
			q.settled(taken, number)
		}
	}
}

// settled waits for the kernel to take in the notice of a number, but not long.
func (q *notifier) settled(taken chan struct{}, number uint64) {
	timer := time.NewTimer(noticePatience)
	defer timer.Stop()
	select {
	case <-taken:
	case <-timer.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-taken:
	default:
		q.late[number] = true
	}
	q.sent = number
	q.progress.Broadcast()
}

// taken notes that the kernel has taken in the notice of a number.
func (q *notifier) taken(number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.late[number] {
		delete(q.late, number)
		q.progress.Broadcast()
	}
}

// send gives the kernel one notice. About a name it does not know, and after an
// unmount, it has nothing to forget. An inode that it does not know it may be
// about to: the reply that tells of it, with what was true before, is on its
// way, so the notice is repeated.
func (q *notifier) send(server *fusedev.Server, n notice) {
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
