package kernelcache

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Notices tells the kernel what it must forget, from goroutines of its own: the kernel takes the
// locks of the inodes concerned, which the very request that is being answered may hold. Requests
// therefore only enqueue notices, after the change. Only a request for which the kernel holds no
// such lock waits for one, and not for long.
//
// Any program can hold such a lock for as long as it likes. So that it holds up nothing else,
// every inode has a queue of its own:
//
//  1. Pending: the queue has notices, and waits for one of maxTelling goroutines.
//  2. Told: a goroutine gives the kernel everything that was pending, as one batch. Further
//     notices about the inode wait in its queue until that call returns.
//  3. Gone: the kernel has taken in all notices about the inode, and the queue is dropped.
//
// So at most one goroutine waits for an inode, and at most maxTelling for all. The order among
// inodes is not kept. It does not matter, since a notice is enqueued after the change that it is
// about: the kernel asks again, and gets what is true at that time.
//
// Notices are numbered in the order in which they are enqueued, from 1 on. The methods may be
// called at once from many goroutines, with the mount's lock held or not.
type Notices struct {
	tellers sync.WaitGroup

	mu       sync.Mutex    // guards what follows; nothing is called with it held
	kernel   Kernel        // nil before Run
	progress chan struct{} // closed when the kernel has taken in more, or at Close; nil while nothing waits
	queues   map[uint64]*inodeQueue
	pending  []*inodeQueue   // in the order in which they were enqueued
	untold   map[uint64]bool // the numbers of the notices that the kernel has not taken in
	queued   uint64          // how many notices were ever enqueued
	telling  int             // goroutines
	closed   bool
}

const (
	maxTelling = 64 // calls of the kernel at once; each may hold a thread

	// awaitAtMost is how long Await waits: a working kernel takes in thousands of notices meanwhile.
	awaitAtMost = time.Second
	// heldUpAfter is how long the kernel takes a batch in before HeldUp lists the inode. It is
	// longer than a request to a remote store usually takes, which may hold the inode's locks.
	heldUpAfter = 2 * time.Second
)

// inodeQueue is the notices about one inode that the kernel has not taken in.
type inodeQueue struct {
	inode   uint64
	pending []queued
	telling bool
	since   time.Time // of the call of the kernel, while telling
}

// queued is a notice in a queue.
type queued struct {
	Notice
	number uint64
	tries  int // how often the kernel did not know the inode
}

// NewNotices returns an empty queue. The kernel is not told anything before Run.
func NewNotices() *Notices {
	return &Notices{queues: map[uint64]*inodeQueue{}, untold: map[uint64]bool{}}
}

// Name makes the kernel look a name of a directory up again. It returns the notice's number.
func (q *Notices) Name(dir uint64, name string) (number uint64) {
	return q.enqueue(Notice{Inode: dir, Name: name}, 0)
}

// Attributes makes the kernel ask for an inode's attributes again. It returns the notice's number.
func (q *Notices) Attributes(inode uint64) (number uint64) {
	return q.enqueue(Notice{Inode: inode}, 0)
}

// Content makes the kernel read an inode again, file or directory. It returns the notice's number.
func (q *Notices) Content(inode uint64) (number uint64) {
	return q.enqueue(Notice{Inode: inode, Pages: true}, 0)
}

// enqueue returns the notice's number. After Close it only counts.
func (q *Notices) enqueue(n Notice, tries int) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued++
	q.untold[q.queued] = true
	if q.closed {
		return q.queued
	}
	of := q.queues[n.Inode]
	if of == nil {
		of = &inodeQueue{inode: n.Inode}
		q.queues[n.Inode] = of
	}
	of.pending = append(of.pending, queued{n, q.queued, tries})
	if len(of.pending) == 1 && !of.telling {
		q.pending = append(q.pending, of)
		q.tellLocked()
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
	return number <= q.queued && !q.untold[number]
}

// Idle reports whether the kernel has taken in all notices.
func (q *Notices) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.untold) == 0
}

// Held is an inode whose notices the kernel has not taken in for a while, because a program or a
// request holds the inode's lock.
type Held struct {
	Inode uint64
	Since time.Time
}

// HeldUp lists the inodes whose notices wait in the kernel for longer than two seconds, the oldest
// first.
func (q *Notices) HeldUp() (held []Held) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, of := range q.queues {
		if of.telling && time.Since(of.since) >= heldUpAfter {
			held = append(held, Held{of.inode, of.since})
		}
	}
	slices.SortFunc(held, func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Inode, b.Inode))
	})
	return held
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

// progressTo returns a channel that is closed when the kernel has taken in more; nil: it has
// taken in all of those notices.
func (q *Notices) progressTo(after, upTo uint64) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || !q.isUntoldLocked(after, upTo) {
		return nil
	}
	if q.progress == nil {
		q.progress = make(chan struct{})
	}
	return q.progress
}

// isUntoldLocked reports whether the kernel has not taken in one of the notices after one and up
// to another.
func (q *Notices) isUntoldLocked(after, upTo uint64) bool {
	if upTo <= after {
		return false
	}
	if upTo-after > uint64(len(q.untold)) {
		for number := range q.untold {
			if after < number && number <= upTo {
				return true
			}
		}
		return false
	}
	for number := after + 1; number <= upTo; number++ {
		if q.untold[number] {
			return true
		}
	}
	return false
}

// Run sends notices to the kernel from now on, until Close.
func (q *Notices) Run(k Kernel) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kernel = k
	for range q.pending { // after Close nothing is
		q.tellLocked()
	}
}

// tellLocked starts a goroutine for the pending notices, if one more is allowed.
func (q *Notices) tellLocked() {
	if q.kernel == nil || q.telling == maxTelling {
		return
	}
	q.telling++
	q.tellers.Go(q.tell)
}

// tell gives the kernel what is pending, batch after batch.
func (q *Notices) tell() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.pending) > 0 {
		of := q.pending[0]
		q.pending = q.pending[1:]
		batch := of.pending
		of.pending, of.telling, of.since = nil, true, time.Now()
		q.mu.Unlock()
		unknown := q.kernel.Forget(withoutRepetition(batch))
		if unknown {
			q.repeat(batch)
		}
		q.mu.Lock()
		of.telling = false
		q.takenLocked(of, batch)
	}
	q.telling--
}

// withoutRepetition returns the notices of a batch, each once, those about names first.
func withoutRepetition(batch []queued) (notices []Notice) {
	if len(batch) == 1 {
		return []Notice{batch[0].Notice}
	}
	names := map[string]bool{}
	var attributes, pages bool
	for _, n := range batch {
		switch {
		case n.Pages:
			pages = true
		case n.Name == "":
			attributes = true
		case !names[n.Name]:
			names[n.Name] = true
			notices = append(notices, n.Notice)
		}
	}
	if attributes || pages {
		notices = append(notices, Notice{Inode: batch[0].Inode, Pages: pages})
	}
	return notices
}

// repeat enqueues the notices about an inode that the kernel does not know once more, a little
// later: the reply that tells the kernel of the inode, with what was true before, may be on its
// way. About a name that it does not know the kernel has nothing to forget.
func (q *Notices) repeat(batch []queued) {
	const retries, pause = 4, 5 * time.Millisecond
	for _, n := range batch {
		if n.Name == "" && n.tries < retries {
			tries := n.tries + 1
			time.AfterFunc(pause<<(2*tries), func() { q.enqueue(n.Notice, tries) })
		}
	}
}

// takenLocked notes that the kernel has taken in a batch.
func (q *Notices) takenLocked(of *inodeQueue, batch []queued) {
	for _, n := range batch {
		delete(q.untold, n.number)
	}
	q.progressLocked()
	if len(of.pending) > 0 {
		q.pending = append(q.pending, of)
	} else {
		delete(q.queues, of.inode)
	}
}

// Close drops pending notices, since the mount is gone, and returns when no call of the kernel is
// under way any longer.
func (q *Notices) Close() {
	q.mu.Lock()
	q.closed, q.pending = true, nil
	for _, of := range q.queues {
		of.pending = nil
	}
	q.progressLocked()
	q.mu.Unlock()
	q.tellers.Wait()
}

func (q *Notices) progressLocked() {
	if q.progress != nil {
		close(q.progress)
		q.progress = nil
	}
}
