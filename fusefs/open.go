package fusefs

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// handle is an open file or directory. Its fields do not change, except unread, entries, held,
// thread, wrote, failed and undone, which fileSystem.mu guards.
type handle struct {
	node    *tree.Entry
	number  uint64        // in the table
	stage   *stage        // of a handle that may write
	text    []byte        // of one that was taken over (takeover.go); else nil
	unread  *memory.Head  // what the session knows once this handle has read it; nil: nothing
	entries []dirEntry    // of a directory, from its last rewind on
	held    int64         // what the budget has of it, without the stage
	heard   span          // of a handle that may write: the notices that its close waits for
	thread  uint32        // that has changed the file through it last
	wrote   mark          // the stage after that; zero: it has changed nothing
	failed  syscall.Errno // of the newest write through it; 0: it went well. See attempt
	undone  bool          // then what was written through it before is undone
}

// isGivenUp reports whether a write through h is refused, since an earlier one has failed. An
// append that took nothing back has failed alone: later appends are not refused.
func (h *handle) isGivenUp(appends bool) bool { return h.failed != 0 && (h.undone || !appends) }

// setFailedLocked says that the newest write through h has failed, or 0 that it went well, and
// whether what was written through h before is undone.
func (fs *fileSystem) setFailedLocked(h *handle, errno syscall.Errno, undone bool) {
	if h.failed == errno && h.undone == undone {
		return
	}
	h.failed, h.undone = errno, undone
	fs.handing.noteHandleLocked(h.number, h)
}

// failedWriterLocked returns why a write to n has failed through a handle that is still
// open; 0: none has.
func (fs *fileSystem) failedWriterLocked(n *tree.Entry) syscall.Errno {
	for _, h := range fs.handles {
		if h.node == n && h.failed != 0 {
			return h.failed
		}
	}
	return 0
}

// unlessMapped returns h, or nil if the kernel writes back a mapping.
func (h *handle) unlessMapped(in *fuse.WriteIn) *handle {
	if in.WriteFlags&fuse.WRITE_CACHE != 0 {
		return nil
	}
	return h
}

// orFailed returns the status of a request about h, or that of a write through h that has failed.
func (fs *fileSystem) orFailed(h *handle, status fuse.Status) fuse.Status {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if status.Ok() {
		return fuse.Status(h.failed)
	}
	return status
}

// newHandleLocked enters h in the table.
func (fs *fileSystem) newHandleLocked(h *handle) uint64 {
	fs.nextFH++
	fs.enterLocked(fs.nextFH, h)
	fs.handing.noteHandleLocked(fs.nextFH, h)
	return fs.nextFH
}

// enterLocked gives a handle its number in the table.
func (fs *fileSystem) enterLocked(fh uint64, h *handle) {
	fs.handles[fh], h.number = h, fh
	ownOpenFile(h.node).opens++
	h.held = handleCost + int64(len(h.text))
	fs.changeHandleLocked(h, h.held)
}

// dropHandleLocked forgets a handle and returns it, or nil.
func (fs *fileSystem) dropHandleLocked(fh uint64) *handle {
	h := fs.handles[fh]
	if h == nil {
		return nil
	}
	delete(fs.handles, fh)
	fs.handing.closedLocked(fh)
	fs.changeHandleLocked(h, -h.held)
	ownOpenFile(h.node).opens--
	if opensOf(h.node) == 0 {
		fs.holdLocked(h.node, nil)
	}
	fs.collectLocked(h.node)
	return h
}

func writes(flags uint32) bool {
	return flags&syscall.O_ACCMODE != syscall.O_RDONLY || flags&syscall.O_TRUNC != 0
}

// Open implements fuse.RawFileSystem.
func (fs *fileSystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if status, answered := fs.InlineOpen(in, out); answered {
		return status
	}
	fs.mu.RLock()
	n := fs.node(in.NodeId)
	fs.mu.RUnlock()
	switch {
	case n == nil:
		return fuse.Status(syscall.ESTALE)
	case n.IsDir():
		return fuse.Status(syscall.EISDIR)
	}
	req, before := *in, fs.notify.Newest()
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		if writes(req.Flags) {
			if storeOf(n).readOnly() {
				return fuse.EROFS
			}
			if status := fs.catchUp(c.ctx, n); !status.Ok() { // so that what is written is based on the newest version
				return status
			}
			if err := cacheOf(n).AwaitPushes(c.ctx, &fs.mu); err != nil {
				return fuse.EINTR
			}
		}
		for tries := 0; ; tries++ {
			status, wait := fs.tryOpen(c, n, &req, before, tries, out)
			if wait == nil {
				return status
			}
			if err := wait(c.ctx); err != nil {
				return fuse.EINTR
			}
		}
	})
}

// tryOpen opens a file, unless the kernel has to know before that its content has changed: it
// would cut the new bytes at the old size, and what a program then writes back would be the cut
// text. Then it returns what waits for that, and is tried again; likewise where an open to append
// may get another file, into which a push is under way. When the kernel cannot be told, an open
// that might do such harm is sent round again: after ESTALE the kernel looks the name up, which
// tells it, too. A truncating open, for which the kernel holds the inode's lock, has no use for
// either.
func (fs *fileSystem) tryOpen(c *call, n *tree.Entry, in *fuse.OpenIn, before uint64, tries int, out *fuse.OpenOut) (status fuse.Status, wait func(context.Context) error) {
	const most = 5
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case in.Flags&syscall.O_TRUNC != 0, !untoldLocked(n):
	case tries > 0 && !inodeOf(n).cache.Misled(fs.notify.Notices): // by a notice of now: an earlier one may have come before the kernel knew n
	case tries < most:
		notice := fs.notify.contentLocked(n)
		return fuse.OK, func(ctx context.Context) error { return fs.notify.Await(ctx, notice-1, notice) }
	case !c.answers():
		return fuse.EINTR, nil
	case writes(in.Flags) && !onlyAppends(in.Flags):
		return fs.sendRoundAgainLocked(n, in.Pid, in.Flags, fs.retries[in.Pid]), nil
	}
	if other := pushedInsteadLocked(n); other != nil && writes(in.Flags) {
		return fuse.OK, func(ctx context.Context) error { return cacheOf(other).AwaitPushes(ctx, &fs.mu) }
	}
	if !c.answers() {
		return fuse.EINTR, nil
	}
	return fs.openFileLocked(n, in, before, out), nil
}

// openFileLocked opens the file that a request names, before which that notice was the
// newest.
func (fs *fileSystem) openFileLocked(named *tree.Entry, in *fuse.OpenIn, before uint64, out *fuse.OpenOut) fuse.Status {
	n, status := fs.openTargetLocked(named, in.Pid, in.Flags)
	switch {
	case n == nil:
		return status
	case n.IsSupersededLocked() && readsFirst(in.Flags): // though its name was looked up again
		return fuse.Status(fs.opts.ConflictErrno)
	}
	if writes(in.Flags) && storeOf(n).readOnly() {
		return fuse.EROFS // archived since it was mounted
	}
	if writes(in.Flags) {
		if status := fs.admitLocked(n.LatestLocked(), in.Flags); !status.Ok() {
			return status
		}
	}
	if status := fs.affordOpenLocked(n, in.Flags); !status.Ok() {
		return status
	}
	fs.openLocked(n, in.Pid, in.Flags, before, out)
	if n != named { // the kernel has its own pages of that, and cuts at its size
		out.OpenFlags = out.OpenFlags&^fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_DIRECT_IO
	}
	return fuse.OK
}

// catchUp catches n's store up. When its log cannot be asked, nothing could be committed either:
// a program that ignores errors at close, as a shell's own echo does, is told now. Scratch files
// are not committed.
func (fs *fileSystem) catchUp(ctx context.Context, n *tree.Entry) fuse.Status {
	err := storeOf(n).catchUp(ctx)
	fs.mu.RLock()
	scratch := fs.classOfLocked(n) != ordinary
	fs.mu.RUnlock()
	if err == nil || scratch {
		return fuse.OK
	}
	return storeOf(n).fail("open", fs.where(n), err)
}

// readsFirst reports whether a handle can read the file before it changes it,
// and may change any of it.
func readsFirst(flags uint32) bool {
	return flags&(syscall.O_ACCMODE|syscall.O_APPEND|syscall.O_TRUNC) == syscall.O_RDWR
}

// untoldLocked reports whether the kernel has outdated pages of n.
func untoldLocked(n *tree.Entry) bool { return inodeOf(n).cache.Outdated() && lookupsOf(n) > 0 }

// openLocked makes a handle of a memory's file, for a request of a thread before which that
// notice was the newest.
func (fs *fileSystem) openLocked(n *tree.Entry, thread, flags uint32, before uint64, out *fuse.OpenOut) {
	h := &handle{node: n}
	if !inodeOf(n).cache.Outdated() {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	}
	switch {
	case !writes(flags) && mustReadLocked(n):
		h.unread = n.HeadLocked()
	case !writes(flags), readsFirst(flags) && !knownLocked(n).Stale(n.HeadLocked()) && !knownLocked(n).WasRefused():
		noteOpenLocked(n)
	}
	cacheOf(n).Opened(fs.notify.Notices, flags&syscall.O_TRUNC != 0)
	if writes(flags) {
		cacheOf(n).Write()
		h.heard = span{before, fs.notify.Newest()}
		h.stage = beginWriteLocked(n, flags)
		if h.stage.overtaken || readsFirst(flags) && knownLocked(n).Asks() { // it must be read first
			h.unread = n.HeadLocked()
		}
		if flags&syscall.O_TRUNC != 0 {
			fs.beginAttemptLocked(h.stage, h, false)
			h.stage.emptyLocked()
			h.changedLocked(thread)
			n.SetTimesLocked(time.Now())
		}
		fs.accountStageLocked(n, h.stage)
	} else {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
	}
	if h.unread != nil { // and that must be seen here
		out.OpenFlags &^= fuse.FOPEN_KEEP_CACHE
	}
	out.Fh = fs.newHandleLocked(h)
}

// Create implements fuse.RawFileSystem.
func (fs *fileSystem) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if status, answered := fs.InlineCreate(in, name, out); answered {
		return status
	}
	req := *in
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status { return fs.makeFile(c, &req, name, out) })
}

// makeFile is Create for the requests that InlineCreate does not answer.
func (fs *fileSystem) makeFile(c *call, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	fs.mu.RLock()
	dir, status := fs.writableLocked(in.NodeId)
	fs.mu.RUnlock()
	if !status.Ok() {
		return status
	}
	if special(in.Mode) {
		return fs.unsupported(in.NodeId, name, noSetuid)
	}
	before := fs.notify.Newest()
	if err := storeOf(dir).catchUp(c.ctx); err != nil {
		fs.mu.RLock()
		kind := classifyLocked(dir, name)
		fs.mu.RUnlock()
		if kind == ordinary {
			return storeOf(dir).fail("create", name, err)
		}
	}
	if status := fs.reach(c.ctx, in.NodeId, name); !status.Ok() {
		return status
	}
	if status := fs.buryFor(c.ctx, dir, name); !status.Ok() {
		return status
	}
	for {
		status, pushed := fs.tryCreate(c, in, name, before, out)
		if pushed == nil {
			return status
		}
		if err := cacheOf(pushed).AwaitPushes(c.ctx, &fs.mu); err != nil {
			return fuse.EINTR
		}
	}
}

// tryCreate is create, unless the file that has the name gets a push: then it returns that, and
// is tried again.
func (fs *fileSystem) tryCreate(c *call, in *fuse.CreateIn, name string, before uint64, out *fuse.CreateOut) (status fuse.Status, pushed *tree.Entry) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, canonical, status := fs.newNameLocked(in.NodeId, name, 0)
	if !status.Ok() {
		return status, nil
	}
	if n := dir.ChildLocked(canonical); n != nil && inodeOf(n).cache.Pushing() && in.Flags&syscall.O_EXCL == 0 {
		return fuse.OK, n
	}
	if !c.answers() {
		return fuse.EINTR, nil
	}
	return fs.createLocked(in, name, before, out), nil
}

// special reports whether a request gives a file bits that no memory has.
func special(mode uint32) bool {
	return mode&(syscall.S_ISUID|syscall.S_ISGID|syscall.S_ISVTX) != 0
}

// createLocked makes a file for a request before which that notice was the newest, or
// opens the one that another session has made.
func (fs *fileSystem) createLocked(in *fuse.CreateIn, name string, before uint64, out *fuse.CreateOut) fuse.Status {
	dir, canonical, status := fs.newNameLocked(in.NodeId, name, 0)
	if !status.Ok() {
		return status
	}
	n := dir.ChildLocked(canonical)
	path, _ := dir.ChildPathLocked(canonical)
	switch {
	case n == nil:
		if !onlyAppends(in.Flags) {
			if status := storeOf(dir).answerLocked(storeOf(dir).admitNewLocked(path)); !status.Ok() {
				return status
			}
		}
		why := forSaving
		if classifyLocked(dir, canonical) == editorScratch {
			why = forScratch
		}
		if err := fs.affordLocked(handleCost+stageCost, why); err != nil {
			return storeOf(dir).tooMuch("create", path, err)
		}
		if hidden := dir.HiddenAtLocked(canonical); hidden != nil {
			if status := fs.admitLocked(hidden, syscall.O_WRONLY); !status.Ok() {
				return status
			}
		}
		now := time.Now()
		mkstemp, probe := madeUpLocked(dir, canonical, in.Flags, now), in.Flags&syscall.O_EXCL != 0 && isProbe(canonical)
		n = storeOf(dir).tree.MakeFileLocked(dir, canonical, in.Mode, now)
		n.SetMadeUpLocked(mkstemp, probe)
		n.SpellLocked(name)
		if dir.HiddenAtLocked(canonical) == nil {
			storeOf(dir).known.Update(path, session.Knowledge.Absent)
		}
		fs.openLocked(n, in.Pid, in.Flags|syscall.O_TRUNC, before, &out.OpenOut)
		fs.handles[out.Fh].stage.appendOnly = in.Flags&syscall.O_APPEND != 0
	case n.IsDir():
		return fuse.Status(syscall.EISDIR)
	case in.Flags&syscall.O_EXCL != 0:
		return fuse.Status(syscall.EEXIST)
	default: // another session made it since the kernel looked
		if status := fs.admitLocked(n, in.Flags); !status.Ok() {
			return status
		}
		if status := fs.affordOpenLocked(n, in.Flags); !status.Ok() {
			return status
		}
		fs.openLocked(n, in.Pid, in.Flags, before, &out.OpenOut)
	}
	fs.replyLocked(n, canonical == name, &out.EntryOut)
	return fuse.OK
}

// Read implements fuse.RawFileSystem.
func (fs *fileSystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if fs.noOpen {
		return fs.readByNode(cancel, in, buf)
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	if h == nil {
		fs.mu.RUnlock()
		return nil, fuse.EBADF
	}
	n := h.node
	if n.ParentLocked() != nil {
		cacheOf(n.ParentLocked()).ReadBelow.Store(true)
	}
	head, data, unread := n.HeadLocked(), keptContent(n), h.unread
	switch {
	case h.text != nil:
		data = h.text
	case isStaged(n): // copied, since it changes
		size := 0
		if in.Offset < uint64(len(stageOf(n).data)) {
			size = copy(buf, stageOf(n).data[in.Offset:])
		}
		fs.mu.RUnlock()
		return fuse.ReadResultData(buf[:size]), fuse.OK
	case head == nil:
		data = []byte{}
	}
	fs.mu.RUnlock()
	if data == nil {
		var status fuse.Status
		if data, status = fs.readHead(cancel, in.Pid, n, head); !status.Ok() {
			return nil, status
		}
		fs.mu.Lock()
		if n.HeadLocked() == head && opensOf(n) > 0 {
			fs.holdLocked(n, data)
		}
		fs.mu.Unlock()
	}
	if (in.Offset == 0 || h.stage == nil) && unread != nil && unread == head {
		fs.firstRead(h, head)
	}
	start := min(in.Offset, uint64(len(data)))
	end := min(start+uint64(len(buf)), uint64(len(data)))
	return fuse.ReadResultData(data[start:end]), fuse.OK
}

// readHead returns the bytes of a head of n for a request of a thread.
func (fs *fileSystem) readHead(cancel <-chan struct{}, thread uint32, n *tree.Entry, head *memory.Head) ([]byte, fuse.Status) {
	if cancel == nil || storeOf(n).memory.Near() { // it would take longer to have another goroutine do it
		data, err := fs.content(fs.ctx, n, head)
		if err != nil {
			return nil, storeOf(n).fail("read", head.Path(), err)
		}
		return data, fuse.OK
	}
	return fs.readBeside(cancel, thread, n, head)
}

// readBeside is readHead for a store that may take long.
func (fs *fileSystem) readBeside(cancel <-chan struct{}, thread uint32, n *tree.Entry, head *memory.Head) (data []byte, status fuse.Status) {
	status = fs.beside(cancel, thread, func(c *call) fuse.Status {
		got, err := fs.content(c.ctx, n, head)
		switch {
		case err != nil:
			return storeOf(n).fail("read", head.Path(), err)
		case !c.answers():
			return fuse.EINTR
		}
		data = got
		return fuse.OK
	})
	return data, status
}

// Release implements fuse.RawFileSystem. Bytes that a shared mapping wrote may come after the
// last flush, and are committed here, where an error reaches no program.
func (fs *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if fs.InlineRelease(in) {
		return
	}
	fs.mu.Lock()
	h := fs.dropHandleLocked(in.Fh)
	uncommitted := h != nil && h.uncommittedLocked()
	fs.mu.Unlock()
	if uncommitted {
		fs.commitUnheard(h.node, h.stage, released)
	}
	if h != nil {
		fs.endWriter(h.node, h.stage, fs.endWriteLocked)
	}
}

// uncommittedLocked reports whether h is the last handle of a text that must still be committed.
func (h *handle) uncommittedLocked() bool {
	st := h.stage
	return st != nil && st.writers == 1 && st.dirty && !h.node.LatestLocked().IsRemovedLocked()
}
