package fusefs

import (
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
)

// truncate sets n's size for SetAttr. With a handle the change is committed
// when that is closed; without one, here.
func (fs *fileSystem) truncate(c *call, n *tree.Entry, in *fuse.SetAttrIn, size uint64) fuse.Status {
	if n.IsDir() {
		return fuse.Status(syscall.EISDIR)
	}
	fh, ok := in.GetFh()
	fs.mu.RLock()
	limit, h := fs.limitLocked(n), fs.handles[fh]
	fs.mu.RUnlock()
	if !ok || h != nil && h.stage == nil {
		h = nil
	}
	if size > uint64(limit) {
		fs.resizeFailed(h, syscall.EFBIG)
		path := fs.where(n)
		return storeOf(n).fail("truncate", path, &memory.SizeError{Path: path, Size: int64(min(size, 1<<62)), Limit: limit})
	}
	if h != nil {
		return fs.truncateHandle(c, h, in.Pid, int(size))
	}

	if status := fs.catchUp(c.ctx, n); !status.Ok() {
		return status
	}
	if err := cacheOf(n).AwaitPushes(c.ctx, &fs.mu); err != nil {
		return fuse.EINTR
	}
	fs.mu.Lock()
	if m, status := fs.openTargetLocked(n, in.Pid, syscall.O_WRONLY); m == nil {
		fs.mu.Unlock()
		return status
	}
	if status := fs.admitLocked(n.LatestLocked(), syscall.O_WRONLY); !status.Ok() {
		fs.mu.Unlock()
		return status
	}
	st := beginWriteLocked(n, syscall.O_WRONLY)
	fs.mu.Unlock()
	status := fs.truncateNow(c, n, st, int(size))
	fs.tellName(c.ctx, n)
	fs.endWriter(n, st, fs.endWriteLocked)
	return status
}

// truncateHandle is truncate through a handle of n. A handle that empties the file starts again,
// whatever has failed before.
func (fs *fileSystem) truncateHandle(c *call, h *handle, thread uint32, size int) fuse.Status {
	fs.mu.Lock()
	if size == 0 {
		fs.setFailedLocked(h, 0, false)
	}
	failed := h.failed
	fs.mu.Unlock()
	if failed != 0 {
		return fuse.Status(failed)
	}
	status := fs.setSize(c, h, h.node, h.stage, size)
	if !status.Ok() && status != fuse.EINTR {
		fs.resizeFailed(h, syscall.Errno(status))
		return status
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h.changedLocked(thread)
	return status
}

// resizeFailed undoes what has emptied a file through h, or no handle, to make it as long as it
// may not be. Other changes stand: the program knows that the length is what it was.
func (fs *fileSystem) resizeFailed(h *handle, errno syscall.Errno) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h == nil {
		return
	}
	if st := h.stage; st.base != nil && st.dirty && !st.wrote && !st.overtaken && st.attempt.by == h {
		fs.failedLocked(h, errno)
	}
}

// truncateNow sets n's size and commits it. When that fails, other writers of the file continue
// with the text that they had.
func (fs *fileSystem) truncateNow(c *call, n *tree.Entry, st *stage, size int) fuse.Status {
	fs.mu.Lock()
	more := int64(len(st.data) + len(st.appended)) // for the copy
	if err := fs.affordLocked(more, fs.purposeOfLocked(n)); err != nil {
		defer fs.mu.Unlock()
		return storeOf(n).tooMuch("truncate", madeForLocked(n), err)
	}
	fs.budget.change(more)
	defer fs.giveBack(&more)
	before := st.copiedLocked()
	fs.mu.Unlock()
	var changes uint64
	noteLocked := func() {
		if st.changes != before.changes || st.committed != before.committed {
			before = st.copiedLocked()
		}
		if changes = before.changes; size != len(st.data) {
			changes++
		}
	}
	if err := fs.withLoaded(c.ctx, n, st, false, noteLocked); err != nil {
		return storeOf(n).fail("truncate", fs.where(n), err)
	}
	status := fs.setSize(nil, nil, n, st, size)
	if status.Ok() {
		status = fs.commitFile(n, st, saved)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if status.Ok() || st.err != 0 || st.changes != changes {
		return status
	}
	switch {
	case st.committed != before.committed || storeOf(n).session.IsInDoubt(&st.lost), // a commit is in the log, or may be
		st.base != before.base && !st.overtaken: // it has another path, or is merged
		st.data, st.loaded, st.dirty, st.wrote = before.data, before.loaded, before.dirty, before.wrote
	default:
		st.written = before
	}
	fs.accountStageLocked(n, st)
	st.changes = changes + 1
	st.rewrote, st.anyones = st.changes, st.changes
	fs.notify.contentLocked(n)
	return status
}

// copiedLocked is what the stage holds, with bytes of its own.
func (st *stage) copiedLocked() written {
	c := st.written
	c.data, c.appended = slices.Clone(st.data), slices.Clone(st.appended)
	return c
}

// setSize sets the size of the text that is being written to n, through h if not nil, for a
// request that must still be answered then; a nil call is one that is not asked.
func (fs *fileSystem) setSize(c *call, h *handle, n *tree.Entry, st *stage, size int) (status fuse.Status) {
	ctx := fs.ctx
	if c != nil {
		ctx = c.ctx
	}
	var failed error
	toBeLost := false
	setLocked := func() {
		if c != nil && !c.answers() {
			status = fuse.EINTR
			return
		}
		if status = fuse.Status(st.err); status.Ok() {
			status, failed = fs.resizeLocked(h, n, st, size)
		}
		toBeLost = st.dirty && fs.willBeLostLocked(n, st)
	}
	if err := fs.withLoaded(ctx, n, st, false, setLocked); err != nil {
		failed = err
	}
	switch {
	case failed != nil:
		return storeOf(n).fail("truncate", fs.where(n), failed)
	case status.Ok() && toBeLost:
		return fs.loseMore(n, st)
	}
	return status
}

// resizeLocked makes a stage size bytes long. An error is yet to be noted.
func (fs *fileSystem) resizeLocked(h *handle, n *tree.Entry, st *stage, size int) (fuse.Status, error) {
	if err := fs.affordStageLocked(n, st, int64(size), 0); err != nil {
		return storeOf(n).tooMuch("truncate", madeForLocked(n), err), nil
	}
	if size != len(st.data) {
		fs.beginAttemptLocked(st, h, false)
		if err := st.resizeLocked(size); err != nil {
			return fuse.OK, err
		}
		st.rewrote = st.changes
		fs.accountStageLocked(n, st)
	}
	n.SetMTimeLocked(time.Now())
	markLocked(n)
	return fuse.OK, nil
}
