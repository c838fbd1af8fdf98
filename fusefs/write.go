package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// Write implements fuse.RawFileSystem.
func (fs *fileSystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return fs.write(cancel, in, [][]byte{data})
}

// Writev implements fuse.RawFileSystem.
func (fs *fileSystem) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	return fs.write(cancel, in, data)
}

func (fs *fileSystem) write(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	size, status, answered := fs.inlineWrite(in, data)
	if answered {
		return size, status
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	fs.mu.RUnlock()
	if fs.noOpen {
		return 0, fs.refuseByNode(in.NodeId)
	}
	if h == nil || h.stage == nil {
		return 0, fuse.EBADF
	}
	n, st, req := h.node, h.stage, *in
	if storeOf(n).memory.Near() {
		cancel = nil // see readHead
	}
	status = fs.beside(cancel, in.Pid, func(c *call) (status fuse.Status) {
		toBeLost := false
		var undone *session.Loss
		putLocked := func() {
			if status = fuse.EINTR; c.answers() { // so that the data is still the request's
				size, status = fs.writeLoadedLocked(h, &req, data)
				toBeLost = fs.willBeLostLocked(n, st)
				if !status.Ok() {
					undone = fs.writeFailedLocked(h, &req, status)
				}
			}
		}
		err := fs.withLoaded(c.ctx, n, st, appends(&req), putLocked)
		switch {
		case err != nil:
			status = storeOf(n).fail("write", fs.where(n), err)
			fs.mu.Lock()
			undone = fs.writeFailedLocked(h, &req, status)
			fs.mu.Unlock()
		case status.Ok() && toBeLost:
			return fs.loseMore(n, st)
		}
		fs.keepUndone(n, undone)
		return status
	})
	if !status.Ok() {
		size = 0
	}
	return size, status
}

// willBeLostLocked reports whether the bytes written to a stage will not be committed, so that
// the program that writes must hear of it at once.
func (fs *fileSystem) willBeLostLocked(n *tree.Entry, st *stage) bool {
	return st.overtaken && !fs.opts.Merge && !n.LatestLocked().IsRemovedLocked()
}

// writeLoadedLocked does a write to a handle whose stage is loaded.
func (fs *fileSystem) writeLoadedLocked(h *handle, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	n, st := h.node, h.stage
	if st.err != 0 {
		return 0, fuse.Status(st.err)
	}
	if h.isGivenUp(appends(in)) {
		return 0, fuse.Status(h.failed)
	}
	size := 0
	for _, part := range data {
		size += len(part)
	}
	at := int64(in.Offset)
	if appends(in) && at != int64(len(st.data)) {
		at = int64(len(st.data))
		fs.notify.contentLocked(n)
	}
	end := at + int64(size)
	if limit := fs.limitLocked(n); end > limit {
		return 0, fs.tooBigLocked(n, end)
	}
	if err := fs.affordStageLocked(n, st, end, int64(size)); err != nil {
		return 0, storeOf(n).tooMuch("write", madeForLocked(n), err)
	}
	st.beginsLocked(in.Pid)
	before := st.changes
	atEnd := at == int64(len(st.data))
	fs.beginAttemptLocked(st, h.unlessMapped(in), atEnd)
	if int(end) > len(st.data) {
		if err := st.resizeLocked(int(end)); err != nil {
			return 0, storeOf(n).fail("write", madeForLocked(n), err)
		}
	}
	for _, part := range data {
		at += int64(copy(st.data[at:], part))
		if st.appendOnly {
			st.appended = append(st.appended, part...)
		}
	}
	st.dirty, st.wrote = true, true
	st.changes++
	fs.handing.wroteLocked(st, before, end-int64(size), data)
	if atEnd {
		st.added += uint64(size)
	} else {
		st.rewrote = st.changes
	}
	if in.WriteFlags&fuse.WRITE_CACHE != 0 { // of a mapping: the kernel guesses the handle
		st.anyones = st.changes
	}
	st.endsLocked(in.Pid, in.Offset+uint64(size))
	h.changedLocked(in.Pid)
	fs.setFailedLocked(h, 0, h.undone)
	n.SetTimesLocked(time.Now())
	markLocked(n)
	if st.appendOnly {
		fs.appendedLocked(st, n.MTimeLocked())
	}
	fs.accountStageLocked(n, st)
	return uint32(size), fuse.OK
}

// writeFailedLocked is failedLocked for a write that ended with a status. An interrupted one was
// not made. The kernel guesses the handle of a write from a mapping, so that write belongs to no
// handle.
func (fs *fileSystem) writeFailedLocked(h *handle, in *fuse.WriteIn, status fuse.Status) *session.Loss {
	if status == fuse.EINTR || h.unlessMapped(in) == nil || h.isGivenUp(appends(in)) {
		return nil
	}
	return fs.failedLocked(h, syscall.Errno(status))
}

// appends reports whether a write goes to the end of the file, wherever that
// is. The kernel's offset is where the end was when it last heard of it, which
// may be before another session's change.
func appends(in *fuse.WriteIn) bool {
	return in.Flags&syscall.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
}

// tooBigLocked refuses a write that would have made a file at least size bytes long.
func (fs *fileSystem) tooBigLocked(n *tree.Entry, size int64) fuse.Status {
	path := madeForLocked(n)
	return storeOf(n).fail("write", path, &memory.SizeError{Path: path, Size: size, Partial: true, Limit: fs.limitLocked(n)})
}
