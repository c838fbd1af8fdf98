package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
)

// seeLocked notes that the session opens n for reading. What it reads while the file
// is being written here is no version: only of what is appended does it know
// more than what it has written itself. And while the kernel does not know of a
// change yet, it may get the new bytes cut at the old length, which does not
// count.
//
// Reads do not count, but for those of mustRead. The kernel asks for whole pages:
// who goes on in the middle of a page that has been invalidated looks like who
// begins anew, and would end with the beginning of one version and the end of
// another.
func (n *node) seeLocked() {
	v := n.head
	if n.staged() && n.stage().dirty {
		if !n.stage().tails {
			return
		}
		v = n.stage().base
	}
	if v == nil || n.store.readOnly() || n.had().cache.Misled(n.store.fs.notify.Notices) {
		return
	}
	n.sawLocked(v)
}

// mustReadLocked reports whether a session that knows another version of n, or was
// refused a write, has to be seen reading this one. rsync opens what it is about
// to replace, and reads nothing of it.
func (n *node) mustReadLocked() bool {
	return (n.knownLocked().WasRefused() || n.knownLocked().Stale(n.head)) && n.head != nil && n.head.Size() > 0 && !n.staged() && !n.succeededLocked()
}

// sawLocked notes that the session has got a version of n to read, for what stands at
// n's path by now.
func (n *node) sawLocked(v *memory.Head) {
	s, m, known := n.store, n.nowLocked(), n.knownLocked()
	path, there := n.targetLocked()
	switch {
	case m.removed, (m != n || !there) && known.Head() != nil && known.Head().Seq() >= v.Seq():
	case there:
		n.learnLocked(func(known session.Knowledge) session.Knowledge { return known.Read(v) })
	default:
		s.noteLocked(path, known.Read(v))
	}
}

// firstRead notes that a handle of a file of which the session knew another
// version, or has only read this one, has been read, if it can write, from the
// start: what it writes is based on that. The kernel had no pages then, so it
// asked for what was read.
func (fs *fileSystem) firstRead(h *handle, head *memory.Head) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, st := h.node, h.stage
	if h.unread != head || n.head != head || n.succeededLocked() || n.had().cache.Misled(fs.notify.Notices) {
		return
	}
	h.unread = nil
	n.sawLocked(head)
	if st == nil || st != n.stage() || st.dirty || st.err != 0 || st.conflict != 0 {
		return
	}
	st.fresh = true
	if st.overtaken {
		st.base, st.overtaken = head, false
		st.data, st.loaded = nil, false
		fs.reckonLocked(n, st)
	}
}

// admitLocked decides whether a file may be opened with flags that write: not when
// what would be overwritten is not what the session knows. What appends does
// not overwrite; and a handle that can read may do that first, so what it
// writes is judged then.
func (fs *fileSystem) admitLocked(n *node, flags uint32) fuse.Status {
	switch {
	case n.head == nil || onlyAppends(flags):
		return fuse.OK
	case n.knownLocked().Stale(n.head):
		if flags&syscall.O_ACCMODE == syscall.O_RDWR && flags&syscall.O_TRUNC == 0 || fs.opts.Merge {
			return fuse.OK
		}
		return n.store.refuseStaleLocked(n, n.head)
	}
	return fs.admitBlindLocked(n)
}

// admitBlindLocked lets a session replace a memory that it never read, unless the
// mount is strict.
func (fs *fileSystem) admitBlindLocked(n *node) fuse.Status {
	if n.knownLocked().IsKnown() || n.head == nil {
		return fuse.OK
	}
	if fs.opts.Strict {
		return n.store.refuseBlindLocked(n, n.head)
	}
	n.store.blind++
	return fuse.OK
}

// onlyAppends reports whether all that a handle can change is to write at the
// end.
func onlyAppends(flags uint32) bool {
	return flags&syscall.O_APPEND != 0 && flags&syscall.O_TRUNC == 0
}

// loseMore is lose for a change that was just made to an overtaken stage.
func (fs *fileSystem) loseMore(n *node, st *stage) fuse.Status {
	end, err := n.own().turn.Take(fs.ctx)
	if err != nil {
		return n.store.fail("write", fs.where(n), err)
	}
	defer end()
	fs.mu.RLock()
	theirs := n.theirsLocked()
	fs.mu.RUnlock()
	return fs.lose(n, st, theirs, nil)
}
