package fusefs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// noteOpenLocked notes that the session opens n for reading. While the file is being written
// here, the text that the session reads is not a version. The session learns more than its own
// bytes only if the file is just appended to: it learns the version that they are appended to.
// And while the kernel does not know of a change yet, the session may get the new bytes cut at
// the old length. Such a read does not count.
//
// Reads do not count, except those of mustRead. The kernel asks for whole pages: a program that
// continues in the middle of an invalidated page looks like a program that starts again, and
// would end with the beginning of one version and the end of another.
func noteOpenLocked(n *tree.Entry) {
	v := n.HeadLocked()
	if isStaged(n) && stageOf(n).dirty {
		if !stageOf(n).appendOnly {
			return
		}
		v = stageOf(n).base
	}
	if v == nil || storeOf(n).readOnly() || inodeOf(n).cache.Misled(storeOf(n).fs.notify.Notices) {
		return
	}
	noteReadLocked(n, v)
}

// mustReadLocked reports whether a session that knows another version of n, or was
// refused a write, has to be seen reading this one. rsync opens what it is about
// to replace, and reads nothing of it.
func mustReadLocked(n *tree.Entry) bool {
	return (knownLocked(n).WasRefused() || knownLocked(n).Stale(n.HeadLocked())) && n.HeadLocked() != nil && n.HeadLocked().Size() > 0 && !isStaged(n) && !n.IsSupersededLocked()
}

// noteReadLocked notes that the session has got a version of n to read, for the file that is now
// at n's path.
func noteReadLocked(n *tree.Entry, v *memory.Head) {
	s, m, known := storeOf(n), n.LatestLocked(), knownLocked(n)
	path, there := n.TargetLocked()
	switch {
	case m.IsRemovedLocked(), (m != n || !there) && known.Head() != nil && known.Head().Seq() >= v.Seq():
	case there:
		updateKnownLocked(n, func(known session.Knowledge) session.Knowledge { return known.Read(v) })
	default:
		s.noteLocked(path, known.Read(v))
	}
}

// firstRead notes that a handle of a file of which the session knew another version, or has only
// read this one, has been read, if it can write, from the start: the text that it writes is based
// on that read. The kernel had no pages then, so it asked for the bytes that were read.
func (fs *fileSystem) firstRead(h *handle, head *memory.Head) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, st := h.node, h.stage
	if h.unread != head || n.HeadLocked() != head || n.IsSupersededLocked() || inodeOf(n).cache.Misled(fs.notify.Notices) {
		return
	}
	h.unread = nil
	noteReadLocked(n, head)
	if st == nil || st != stageOf(n) || st.dirty || st.err != 0 || st.conflict != 0 {
		return
	}
	st.fresh = true
	if st.overtaken {
		st.base, st.overtaken = head, false
		st.data, st.loaded = nil, false
		fs.accountStageLocked(n, st)
	}
}

// admitLocked decides whether a file may be opened with flags that write: it may not if the
// session does not know the version that would be overwritten. A handle that only appends does
// not overwrite. A handle that can read may read first, so its text is judged when it is written.
func (fs *fileSystem) admitLocked(n *tree.Entry, flags uint32) fuse.Status {
	switch {
	case n.HeadLocked() == nil || onlyAppends(flags) || n.KnownByItselfLocked():
		return fuse.OK
	case knownLocked(n).Stale(n.HeadLocked()) && (flags&syscall.O_ACCMODE == syscall.O_RDWR && flags&syscall.O_TRUNC == 0 || fs.opts.Merge):
		return fuse.OK
	}
	path := ""
	if !n.LatestLocked().IsRemovedLocked() {
		path = n.KnownAtLocked()
	}
	return storeOf(n).answerLocked(storeOf(n).session.Admit(path, n.HeadLocked()))
}

// admitRemovalLocked decides whether a memory may be removed: not when it is not what
// the session knows, nor when that is another session's change which it has only
// read.
func (s *store) admitRemovalLocked(n *tree.Entry) fuse.Status {
	path, _ := n.LogPathLocked()
	return s.answerLocked(s.session.AdmitRemoval(path, n.HeadLocked()))
}

// admitNewLocked returns why nothing may be put at a path at which there is no memory; nil: it
// may. Bytes that are only appended replace nothing.
func (s *store) admitNewLocked(path string) *session.LostError {
	return s.session.AdmitNew(path, s.headAtLocked)
}

// headAtLocked is the memory that the log has at a path, whatever name it has in this mount; nil: none.
func (s *store) headAtLocked(path string) *memory.Head {
	if n := s.tree.FindMemoryLocked(path); n != nil {
		return n.HeadLocked()
	}
	if n := s.tree.FindHiddenLocked(path); n != nil {
		return n.HeadLocked()
	}
	return nil
}

// answerLocked answers a request that the session refuses, if it does.
func (s *store) answerLocked(refused *session.LostError) fuse.Status {
	if refused == nil {
		return fuse.OK
	}
	s.session.Report(refused, s.shownAsLocked(refused))
	return fuse.Status(s.fs.opts.ConflictErrno)
}

// shownAsLocked is the name under which this mount shows what a refusal is about; "": no
// other than the log has.
func (s *store) shownAsLocked(refused *session.LostError) string {
	if refused.At != "" {
		return s.aliasLocked(refused.At)
	}
	return s.aliasLocked(refused.Path)
}

// aliasLocked is the name under which this mount shows what the log has at a path, if
// that is hidden; else "".
func (s *store) aliasLocked(path string) string {
	if n := s.tree.FindHiddenLocked(path); n != nil {
		as, _ := n.PathLocked()
		return as
	}
	return ""
}

// onlyAppends reports whether all that a handle can change is to write at the
// end.
func onlyAppends(flags uint32) bool {
	return flags&syscall.O_APPEND != 0 && flags&syscall.O_TRUNC == 0
}

// loseMore keeps a change that was just made to an overtaken stage.
func (fs *fileSystem) loseMore(n *tree.Entry, st *stage) fuse.Status {
	err := storeOf(n).session.Lose(fs.ctx, &stagedText{n: n, st: st})
	var lost *session.LostError
	if errors.As(err, &lost) {
		return fuse.Status(fs.opts.ConflictErrno)
	}
	return storeOf(n).fail("write", fs.where(n), err)
}
