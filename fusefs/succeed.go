package fusefs

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// Another session's version of a file, or its rename of one, is a new file here:
// it gets a node, and with it an inode, of its own, as if it had been renamed
// over the old one. Whoever has that open or mapped goes on reading the version
// that he opened; who looks the name up finds the new one. The kernel cuts what
// it reads at the size that it knows and keeps what it has read page by page, so
// that in one inode a reader could get bytes of two versions.

// line is the nodes that have followed one another in one place, of which those
// before the last are here for whoever has them open.
type line struct{ last *node }

// succeededLocked reports whether another node has taken n's place.
func (n *node) succeededLocked() bool { return n.line != nil && n.line.last != n }

// nowLocked is the node that stands for n's memory by now: n while it has its place.
func (n *node) nowLocked() *node {
	for n.succeededLocked() {
		n = n.line.last
	}
	return n
}

// targetLocked is the path at which what is written to n is committed, and whether n,
// or what took its place, is there. Otherwise another session took the place
// away; "" is a place that never was in the log.
func (n *node) targetLocked() (path string, there bool) {
	m := n.nowLocked()
	if m != n && m.local { // it has a scratch name in this mount, which the log does not
		if path, there = m.logPath(); m.isHidden() && there {
			return path, true
		}
		return n.was, false
	}
	if path, there = m.path(); there {
		return path, true
	}
	return m.was, false
}

// theirsLocked is the version that is at n's target; nil: no memory.
func (n *node) theirsLocked() *memory.Head {
	path, there := n.targetLocked()
	if there {
		return n.nowLocked().head
	}
	if other := n.store.madeLocked(path); other != nil {
		return other.head
	}
	return nil
}

// madeLocked returns the file of the log that is at a path where another one has been
// before, or nil.
func (s *store) madeLocked(path string) *node {
	if path == "" {
		return nil
	}
	if n := s.find(path); n.isMemory() {
		return n
	}
	return nil
}

// usedLocked reports whether anybody may know n by its inode.
func (n *node) usedLocked() bool {
	return n.lookups() > 0 || n.opens() > 0 || n.stage() != nil || n.had().cache.Pushing()
}

// succeedLocked makes v, by another session, the head of n's memory, which has the
// name in dir: n's own, or the one that it has been given. It returns the node
// that is there then. What is being written to n stays as it is, based on what
// it was based on.
func (s *store) succeedLocked(n *node, dir *node, name string, v versionlog.Version) *node {
	head := memory.NewHead(&v)
	s.giveWayLocked(n, head)
	spelling := n.spelling
	if n.head == nil || n.spelledInLog != v.Spelling || n.name != name {
		spelling = "" // v says how
	}
	m := n
	if n.usedLocked() {
		m = s.fs.newNode(s, n.mode, v.Time)
		n.noteWasLocked()
		n.parent = nil
		n.setLocal(false)
		n.markLocked()
		if st := n.stage(); st != nil && st.dirty && !st.tails && !memory.SameText(st.base, head) {
			st.overtaken = true
		}
	}
	looked, length := n.had().cache.Looked != 0, n.sizeLocked()
	attachLocked(dir, name, m)
	if m.setSpelling(spelling); !oneForm(name) {
		s.fs.relistLocked(dir)
	}
	if m != n {
		if n.line == nil {
			n.setAside().line = &line{}
		}
		n.line.last, m.setAside().line = m, n.line
	}
	m.setHeadLocked(head, v.Spelling)
	m.setLocal(false)
	if looked {
		m.learnLocked(func(known session.Knowledge) session.Knowledge { return known.WithLength(length) })
	}
	m.Cache().Supersede()
	m.mtime, m.ctime = v.Time, v.Time
	if !m.atime.IsZero() {
		m.setAside().atime = time.Time{}
	}
	if m != n {
		m.setNamed(s.fs.notify.entryLocked(dir, name))
	}
	return m
}

// leadLocked makes m what stands for n's memory by now: what was written to n has made
// it, where the memory was gone, or after another session had moved to elsewhere
// what it had put in n's place.
func (n *node) leadLocked(m *node) {
	last := n.nowLocked()
	_, there := last.path()
	switch {
	case last == m:
	case there:
		n.setAside().line = &line{last: m}
	case last.line == nil:
		last.setAside().line = &line{last: m}
	default:
		last.line.last = m
	}
}

// yieldLocked gives n's place to the version that a commit has met there, before the
// log has been followed so far; nil is that there is none.
func (n *node) yieldLocked(theirs *versionlog.Version) {
	s := n.store
	switch path, ok := n.path(); {
	case theirs != nil:
		if hidden := s.findHidden(theirs.Path); hidden != nil && n.local && path == theirs.Path {
			s.unhideLocked(hidden)
			s.placeLocked(hidden.versionLocked()) // the follower has met it long ago, and will not again
		}
		s.showLocked(*theirs)
	case ok && !n.local:
		s.leaveLocked(n, time.Now())
	}
}

// giveWayLocked drops a scratch file that nobody has open, and keeps its text as a
// conflict: another session has put v in its place.
func (s *store) giveWayLocked(n *node, v *memory.Head) {
	st := n.stage()
	if st == nil || !st.dirty || st.writers > 0 {
		return
	}
	l := loss{path: v.Path(), theirs: v, yours: slices.Clone(st.data)}
	s.fs.tasks.Go(func() { s.keep(l, 0) })
	n.setStageLocked(nil)
	s.fs.reckonLocked(n, st)
	s.unhideLocked(n)
}

// foundLocked is the file that a request of a thread means which names n, or nil. When
// another session has taken n's place, or has removed it, the kernel, told ESTALE,
// looks the name up again and repeats the request. If one more change came in
// between, n is what the name meant when the request began: who reads gets that.
// So does who only appends, or what has n's name now. Else the status says how
// the request ends.
func (fs *fileSystem) foundLocked(n *node, thread uint32, flags uint32) (*node, fuse.Status) {
	r := fs.retries[thread]
	delete(fs.retries, thread)
	path, there := n.targetLocked()
	switch again := r != nil && r.meantLocked(n); {
	case !n.succeededLocked() && (there || n.removed):
		return n, fuse.OK
	case again && (there && path == n.was || !writes(flags) || !n.succeededLocked() && onlyAppends(flags)):
		return n, fuse.OK
	case again && onlyAppends(flags):
		if other := n.store.madeLocked(n.was); other != nil {
			return other, fuse.OK
		}
		n.setAside().line = nil // what it was has another name by now: under this one it is made anew
		return n, fuse.OK
	}
	return nil, fs.lookAgainLocked(n, thread, flags, r)
}

// lookAgainLocked answers a thread whose request is to begin anew with the name: with
// ESTALE, which no program sees, since the kernel tries once more. A request that
// was that second try, and means to change the file, has lost its race.
func (fs *fileSystem) lookAgainLocked(n *node, thread, flags uint32, before *retry) fuse.Status {
	delete(fs.retries, thread)
	if before != nil && before.meantLocked(n) && writes(flags) {
		return fuse.Status(fs.opts.ConflictErrno)
	}
	if len(fs.retries) >= maxRetries {
		clear(fs.retries)
	}
	fs.retries[thread] = &retry{began: kernelcache.Now()}
	return fuse.Status(syscall.ESTALE)
}

// retry is a request whose thread was sent to look its name up again. It may
// never come back: a signal can end the call.
type retry struct {
	began  kernelcache.Instant
	looked bool // the thread has looked names up since
}

// meantLocked reports whether n is what the request's name meant after it had begun.
func (r *retry) meantLocked(n *node) bool {
	const recent = 10 * time.Second
	return r.looked && n.had().cache.Looked > r.began && r.began.Since() < recent
}

// maxRetries bounds the threads that are remembered to have been sent to look a
// name up again.
const maxRetries = 4096

// tellName returns when the kernel knows what has n's name now: whoever closes
// a file and then asks for its name finds what he wrote, or what won. Callers
// hold no lock, and no request that changes the directory is theirs.
func (fs *fileSystem) tellName(ctx context.Context, n *node) {
	fs.mu.RLock()
	m := n.nowLocked()
	number := m.had().named
	fs.mu.RUnlock()
	if m != n && number != 0 {
		_ = fs.notify.Await(ctx, number-1, number)
	}
}
