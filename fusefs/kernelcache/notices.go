package kernelcache

import (
	"context"
	"sync"
	"time"
)

// Notices tells the kernel what it must forget, from a goroutine of its own: the kernel takes the
// locks of the inodes concerned, which the very request that is being answered may hold. Requests
// therefore only enqueue notices, after the change. Only a request for which the kernel holds no
// such lock waits for one, and not for long.
//
// Notices are numbered in the order in which they are enqueued, from 1 on, and the kernel is given
// them in that order. Its methods may be called at once from many goroutines, with the mount's
// lock held or not.
type Notices struct {
	done chan struct{} // closed when Run has returned
	more chan struct{} // has a token when pending or closed has changed

	mu       sync.Mutex    // guards what follows; nothing is called with it held
	progress chan struct{} // closed when the kernel has taken in more, or at Close; nil while nobody waits
	pending  []notice
	queued   uint64          // how many notices were ever enqueued
	sent     uint64          // how many of them the kernel has been given
	late     map[uint64]bool // which of these, by number, it has yet to take in
	running  bool
	closed   bool
}

// A notice waits in the kernel for what a request holds: its file's pages while
// they are being read, its directory while a name in it changes. That can take
// as long as the network does, and the other files' notices do not wait for it.
const (
	lateAfter = 20 * time.Millisecond
	maxLate   = 64 // each holds a thread

	// awaitAtMost is how long Await waits: a working kernel takes in thousands of notices meanwhile.
	awaitAtMost = time.Second
)

// notice is one notification: of a name in a directory when name is set, else
// of an inode's attributes and, with pages, its content.
type notice struct {
	inode uint64
	name  string
	pages bool
	tries int // how often the kernel did not know the inode
}

// NewNotices returns an empty queue. Nobody is told anything before Run.
func NewNotices() *Notices {
	return &Notices{done: make(chan struct{}), more: make(chan struct{}, 1), late: map[uint64]bool{}}
}

// Name makes the kernel look a name of a directory up again. It returns the notice's number.
func (q *Notices) Name(dir uint64, name string) (number uint64) {
	return q.enqueue(notice{inode: dir, name: name})
}

// Attributes makes the kernel ask for an inode's attributes again. It returns the notice's number.
func (q *Notices) Attributes(inode uint64) (number uint64) { return q.enqueue(notice{inode: inode}) }

// Content makes the kernel read an inode again, file or directory. It returns the notice's number.
func (q *Notices) Content(inode uint64) (number uint64) {
	return q.enqueue(notice{inode: inode, pages: true})
}

// enqueue returns the notice's number. After Close it only counts.
func (q *Notices) enqueue(n notice) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued++
	if !q.closed {
		q.pending = append(q.pending, n)
		q.wakeLocked()
	}
	return q.queued
}

// Newest returns the number of the notice that was enqueued last; 0 if there was none.
func (q *Notices) Newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}

// Told reports whether the kernel has taken in the notice of a number; 0 is no notice, of which
// that is true.
func (q *Notices) Told(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent >= number && !q.late[number]
}

// Idle reports whether the kernel has taken in all notices.
func (q *Notices) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent == q.queued && len(q.late) == 0
}

// Await returns when the kernel has taken in the notices after one and up to another, by number;
// after a second; or after Close, when there is no kernel to wait for. If ctx ends first it returns
// the error of ctx.
func (q *Notices) Await(ctx context.Context, after, upTo uint64) error {
	progress := q.progressTo(after, upTo)
	if progress == nil {
		return nil
	}
	timer := time.NewTimer(awaitAtMost)
	defer timer.Stop()
	for progress != nil {
		select {
		case <-progress:
			progress = q.progressTo(after, upTo)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// progressTo returns a channel that is closed when the kernel has taken in more; nil: there is
// nothing to wait for among those notices.
func (q *Notices) progressTo(after, upTo uint64) <-chan struct{} {
	if after >= upTo {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.sent >= upTo && !q.isLateLocked(after, upTo) {
		return nil
	}
	if q.progress == nil {
		q.progress = make(chan struct{})
	}
	return q.progress
}

// isLateLocked reports whether the kernel has yet to take in one of these notices that it has
// been given.
func (q *Notices) isLateLocked(after, upTo uint64) bool {
	for number := range q.late {
		if after < number && number <= upTo {
			return true
		}
	}
	return false
}

// Run sends notices until Close.
func (q *Notices) Run(k Kernel) {
	defer close(q.done)
	var underWay sync.WaitGroup
	defer underWay.Wait()
	slots := make(chan struct{}, maxLate)
	for {
		n, number, ok := q.next()
		if !ok {
			return
		}
		slots <- struct{}{}
		taken := make(chan struct{})
		underWay.Go(func() {
			q.send(k, n)
			close(taken)
			q.noteTaken(number)
			<-slots
		})
		q.noteSent(taken, number)
	}
}

// next waits for the oldest notice that was not sent, and takes it. It returns false after Close.
func (q *Notices) next() (n notice, number uint64, ok bool) {
	for {
		q.mu.Lock()
		q.running = true
		closed := q.closed
		if ok = len(q.pending) > 0; ok { // after Close nothing is
			n, number = q.pending[0], q.sent+1
			q.pending = q.pending[1:]
		}
		q.mu.Unlock()
		if ok || closed {
			return n, number, ok
		}
		<-q.more
	}
}

// noteSent waits for the kernel to take in the notice of a number, but not long.
func (q *Notices) noteSent(taken <-chan struct{}, number uint64) {
	timer := time.NewTimer(lateAfter)
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
	q.progressLocked()
}

// noteTaken notes that the kernel has taken in the notice of a number.
func (q *Notices) noteTaken(number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.late[number] {
		delete(q.late, number)
		q.progressLocked()
	}
}

// send gives the kernel one notice. About a name that it does not know it has nothing to forget.
// An inode that it does not know it may be about to: the reply that tells of it, with what was
// true before, is on its way, so the notice is repeated.
func (q *Notices) send(k Kernel, n notice) {
	const retries, pause = 4, 5 * time.Millisecond
	if n.name != "" {
		k.ForgetName(n.inode, n.name)
		return
	}
	if !k.Forget(n.inode, n.pages) && n.tries < retries {
		n.tries++
		time.AfterFunc(pause<<(2*n.tries), func() { q.enqueue(n) })
	}
}

// Close ends Run, and returns when the kernel is told nothing any more. What is pending is
// dropped: the mount is gone.
func (q *Notices) Close() {
	q.mu.Lock()
	q.closed = true
	q.pending = nil
	q.wakeLocked()
	q.progressLocked()
	running := q.running
	q.mu.Unlock()
	if running {
		<-q.done
	}
}

func (q *Notices) wakeLocked() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *Notices) progressLocked() {
	if q.progress != nil {
		close(q.progress)
		q.progress = nil
	}
}
