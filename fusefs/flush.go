package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/openfiles"
)

// The close of a file is described in three places. This file says which of several closes
// commits which changes. save.go says which of the written bytes a commit takes, and what the
// mount shows afterwards. session.Save says how those bytes become a version, or lose.
//
// One write(2) of a program can be several requests: Linux (since 5.13) ends one at the end of
// the first page, unless it begins there or the page is in its cache, and every one at fusedev's
// limit. It holds the inode's lock over them all, so that no other write to the inode comes in
// between, and no fsync. But a close can come in between, by another process that has opened the
// file or inherited it.
//
// A commit must not divide them. So the close of a handle commits the file as it was after the
// newest change through that very handle: at that time all earlier writes were whole. A later
// write may not be whole, if another thread makes it and it ends with a page: another close
// commits it. The newest change through the handle may itself be half of a write, if another
// thread than the one that closes has made it: a thread that closes a duplicate of the descriptor
// does not wait for a write. Such a write is left to the close of another descriptor of the
// handle, if one certainly exists. If the process that closes the file has not written it, the
// commit is left to the process that has: a child that ends, or whose exec closes what it has
// inherited, does not know whether its parent is in the middle of something.

// Flush implements fuse.RawFileSystem: the close of one descriptor.
//
// It commits everything that was written through that handle, and all before it, unless another
// close must do that: see committedByAnotherClose.
//
// When it returns, the kernel has been told of everything that the mount heard while the handle
// was made, about other files too: before, it held the directory in which it was about to make a
// file. emacs makes its lock file, and then asks whether the file that it is about to save has
// changed.
func (fs *fileSystem) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if fs.noOpen {
		return fuse.ENOSYS
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	fs.mu.RUnlock()
	if h == nil || h.stage == nil {
		return fuse.OK
	}
	thread := in.Pid
	return fs.beside(cancel, thread, func(c *call) fuse.Status {
		status := fuse.OK
		if byAnother, upTo := fs.committedByAnotherClose(h, thread); !byAnother {
			status = fs.commitUpTo(h.node, h.stage, saved, upTo)
		}
		switch {
		case status.Ok():
		case !c.answers():
			fs.keepUnheard(h.node, h.stage, status)
		case fs.openFiles.AncestryHasOpen(thread, h.node.ID()) != openfiles.Yes:
			fs.closeFailed(h, status)
		}
		fs.tellName(c.ctx, h.node)
		_ = fs.notify.Await(c.ctx, h.heard.after, h.heard.upTo)
		return fs.orFailed(h, status)
	})
}

// committedByAnotherClose reports whether a thread that closes a descriptor of h leaves the
// written bytes for another close to commit. Otherwise it returns up to where they are committed;
// nil means everything.
//
// A shell that redirects into a file opens it, duplicates the descriptor and
// closes the first before anything is written; and every program it then starts
// closes its copy. A file that is only emptied or made so far is therefore not
// committed while the process that closes it, or one it descends from, has
// another descriptor of it: the close of that one will come. Where the daemon does
// not see that process, the file may have another descriptor, too: it is committed
// when its handle is released.
//
// A file with content is committed by the process that has written it, whichever other processes
// have it open. Another process commits it only if neither the writer nor the closing process has
// it open any longer. If the daemon does not see these processes, the file is committed: only so
// is its error heard.
func (fs *fileSystem) committedByAnotherClose(h *handle, thread uint32) (byAnother bool, upTo *mark) {
	fs.mu.RLock()
	node, c := h.node.ID(), fs.closeStateLocked(h, thread)
	fs.mu.RUnlock()
	until := c.until
	if c.half && fs.openFiles.HasOpen(c.writer, node) == openfiles.Yes {
		if c.divides || c.whole.changes <= c.committed {
			return true, nil
		}
		until = c.whole
	}
	switch {
	case c.all:
		return false, nil
	case c.inDoubt:
		return false, &until
	case c.wrote.changes <= c.committed: // nothing, through this handle
		return true, nil
	case !c.content:
		return fs.openFiles.AncestryHasOpen(thread, node) != openfiles.No, &until
	case c.writer == thread || fs.openFiles.SameProcess(c.writer, thread):
		return false, &until
	}
	return fs.openFiles.HasOpen(c.writer, node) == openfiles.Yes || fs.openFiles.AncestryHasOpen(thread, node) == openfiles.Yes, &until
}

// closeState is the state of a stage when a thread closes a descriptor of a handle of its file.
type closeState struct {
	all       bool   // the close commits everything: after an error or a conflict, or if any handle may have written
	inDoubt   bool   // the close must hear the error of an earlier commit, if it has one
	content   bool   // the writes did more than make or empty the file
	half      bool   // the last write, by another thread, ended with a page and may continue
	divides   bool   // the changes after whole cannot be left out
	wrote     mark   // the last write through the handle
	whole     mark   // up to where every write(2) is known to be whole
	until     mark   // up to where this close commits
	committed uint64 // changes that are committed
	writer    uint32 // the last thread that wrote through the handle
}

// closeStateLocked returns the state of the stage of a handle for a close by a thread.
func (fs *fileSystem) closeStateLocked(h *handle, thread uint32) closeState {
	st := h.stage
	c := closeState{
		all:     st.err != 0 || st.overtaken || st.anyones > st.committed,
		inDoubt: !st.dirty || storeOf(h.node).session.IsInDoubt(&st.lost),
		content: st.wrote, divides: fs.dividesLocked(st, &st.whole),
		wrote: h.wrote, whole: st.whole, until: h.wrote, committed: st.committed, writer: h.thread,
	}
	c.half = !c.all && c.content && st.pageEnd && thread != st.thread && st.whole.changes < h.wrote.changes && st.writers == 1
	switch {
	case thread == st.thread && thread != 0: // the closing thread does not write
		c.until = st.mark
	case st.whole.changes > h.wrote.changes:
		c.until = st.whole
	}
	return c
}

// closeFailed gives up the bytes that the last writer's close could not commit: a process that
// opens the file after that close, and before the kernel releases the handle, finds the earlier
// content. If the file has other writers, closeFailed gives up the bytes that were written
// through h, unless they may be committed later.
func (fs *fileSystem) closeFailed(h *handle, status fuse.Status) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, st := h.node, h.stage
	switch {
	case st.err != 0 || st.overtaken: // no process sees it anyway
	case st.writers == 1:
		fs.failLocked(n, st, syscall.Errno(status))
	case st.dirty && st.attempt.by == h && status != fuse.EIO && !storeOf(n).session.IsInDoubt(&st.lost):
		fs.undoLocked(n, st)
	}
}
