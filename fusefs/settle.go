package fusefs

import (
	"slices"
	"time"

	"mneme/versionlog"
)

// The kernel cuts what it reads at the size that it knows. When another session
// changes a file, there is a time in which the tree has the new version and the
// kernel the old size: until the notice has made it ask for the attributes. A
// read gets the old version until then. A mapping reads without ever asking, so
// that what is read after the notice is dropped by another one soon after.

// settling is how long the answer that tells a new size may be on its way to
// being known to the kernel's other readers of the file: a thread that must wait
// for a processor takes it in late. It is short, because a read that waits holds
// its pages, and the notifier must wait for them.
const settling = 40 * time.Millisecond

// lateRead is how long a read may have been on its way since it saw the old size.
const lateRead = 100 * time.Millisecond

// news is that the kernel was told of another size of a file.
type news struct {
	at      time.Time
	threads []uint32 // those which have taken it in, if they ask for anything; a few
}

func (m *news) settled() bool { return m == nil || time.Since(m.at) >= settling }

// supersede notes that another session's version takes the place of n's head.
// Caller holds fs.mu.
func (n *node) supersede() {
	if n.lookups > 0 && n.head != nil && !n.local && !n.staged() {
		n.before.CompareAndSwap(nil, n.head)
	}
}

// showSize notes that the kernel is being told what n's size is, by the answer to
// a request of a thread; 0 is any. Caller holds fs.mu.
func (n *node) showSize(thread uint32) {
	const enough = 8
	if before := n.before.Swap(nil); before != nil && n.size() != before.Size {
		n.news.Store(&news{time.Now(), []uint32{thread}})
		return
	}
	m := n.news.Load()
	if m.settled() || len(m.threads) == enough || slices.Contains(m.threads, thread) {
		return
	}
	// Of two that are told at once one may have to wait.
	n.news.CompareAndSwap(m, &news{m.at, append(slices.Clone(m.threads), thread)})
}

// readable returns the version of n that a read by a thread gets, nil when
// there is none. It waits while another thread is just being told of another
// size. Callers hold no lock.
func (fs *fileSystem) readable(n *node, thread uint32) *versionlog.Version {
	if m := n.news.Load(); !m.settled() && !slices.Contains(m.threads, thread) {
		select {
		case <-time.After(time.Until(m.at.Add(settling))):
		case <-fs.ctx.Done():
		}
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	before := n.before.Load()
	if before == nil {
		return n.head
	}
	if fs.notify.told(n.notice) && n.late.CompareAndSwap(false, true) {
		time.AfterFunc(lateRead, func() { fs.endLate(n) })
	}
	return before
}

// endLate drops what was read of an old version after the notice of the new one.
func (fs *fileSystem) endLate(n *node) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n.late.Store(false)
	n.before.Store(nil)
	if n.parent != nil {
		fs.notify.content(n)
	}
}
