package fusefs

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
)

// handle is an open file or directory. Its fields do not change, but for
// unread, entries, held, thread and wrote, which fileSystem.mu guards.
type handle struct {
	node    *node
	stage   *stage       // of a handle that may write
	text    []byte       // of one that was taken over (takeover.go); else nil
	unread  *memory.Head // what the session knows once this handle has read it; nil: nothing
	entries []dirEntry   // of a directory, from its last rewind on
	held    int64        // what the budget has of it, without the stage
	heard   span         // of a handle that may write: the notices that its close waits for
	thread  uint32       // that has changed the file through it last
	wrote   mark         // the stage after that; zero: it has changed nothing
}

// newHandleLocked enters h in the table.
func (fs *fileSystem) newHandleLocked(h *handle) uint64 {
	fs.nextFH++
	fs.enterLocked(fs.nextFH, h)
	fs.handing.openedLocked(fs.nextFH, h)
	return fs.nextFH
}

// enterLocked gives a handle its number in the table.
func (fs *fileSystem) enterLocked(fh uint64, h *handle) {
	fs.handles[fh] = h
	h.node.ownFile().opens++
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
	h.node.ownFile().opens--
	if h.node.opens() == 0 {
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
	case n.isDir():
		return fuse.Status(syscall.EISDIR)
	}
	req, before := *in, fs.notify.Newest()
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		if writes(req.Flags) {
			if n.store.readOnly() {
				return fuse.EROFS
			}
			if status := fs.catchUp(c.ctx, n); !status.Ok() { // so that what is written is based on the newest version
				return status
			}
			if err := n.Cache().AwaitPushes(c.ctx, &fs.mu); err != nil {
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
func (fs *fileSystem) tryOpen(c *call, n *node, in *fuse.OpenIn, before uint64, tries int, out *fuse.OpenOut) (status fuse.Status, wait func(context.Context) error) {
	const most = 5
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case in.Flags&syscall.O_TRUNC != 0, !n.untoldLocked():
	case tries > 0 && !n.had().cache.Misled(fs.notify.Notices): // by a notice of now: an earlier one may have come before the kernel knew n
	case tries < most:
		notice := fs.notify.contentLocked(n)
		return fuse.OK, func(ctx context.Context) error { return fs.notify.Await(ctx, notice-1, notice) }
	case !c.answers():
		return fuse.EINTR, nil
	case writes(in.Flags) && !onlyAppends(in.Flags):
		return fs.lookAgainLocked(n, in.Pid, in.Flags, fs.retries[in.Pid]), nil
	}
	if other := n.pushedInsteadLocked(); other != nil && writes(in.Flags) {
		return fuse.OK, func(ctx context.Context) error { return other.Cache().AwaitPushes(ctx, &fs.mu) }
	}
	if !c.answers() {
		return fuse.EINTR, nil
	}
	return fs.openFileLocked(n, in, before, out), nil
}

// openFileLocked opens the file that a request names, before which that notice was the
// newest.
func (fs *fileSystem) openFileLocked(named *node, in *fuse.OpenIn, before uint64, out *fuse.OpenOut) fuse.Status {
	n, status := fs.foundLocked(named, in.Pid, in.Flags)
	switch {
	case n == nil:
		return status
	case n.succeededLocked() && readsFirst(in.Flags): // though its name was looked up again
		return fuse.Status(fs.opts.ConflictErrno)
	}
	if writes(in.Flags) && n.store.readOnly() {
		return fuse.EROFS // archived since it was mounted
	}
	if writes(in.Flags) {
		if status := fs.admitLocked(n.nowLocked(), in.Flags); !status.Ok() {
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

// catchUp catches n's store up. When its log cannot be asked, nothing could be
// committed either: who ignores errors at close, as a shell's own echo does, is
// told now. Scratch files are not committed.
func (fs *fileSystem) catchUp(ctx context.Context, n *node) fuse.Status {
	err := n.store.catchUp(ctx)
	fs.mu.RLock()
	scratch := fs.classOf(n) != ordinary
	fs.mu.RUnlock()
	if err == nil || scratch {
		return fuse.OK
	}
	return n.store.fail("open", fs.where(n), err)
}

// readsFirst reports whether a handle can read the file before it changes it,
// and may change any of it.
func readsFirst(flags uint32) bool {
	return flags&(syscall.O_ACCMODE|syscall.O_APPEND|syscall.O_TRUNC) == syscall.O_RDWR
}

// untoldLocked reports whether the kernel has outdated pages of n.
func (n *node) untoldLocked() bool { return n.had().cache.Outdated() && n.lookups() > 0 }

// openLocked makes a handle of a memory's file, for a request of a thread before which that
// notice was the newest.
func (fs *fileSystem) openLocked(n *node, thread, flags uint32, before uint64, out *fuse.OpenOut) {
	h := &handle{node: n}
	if !n.had().cache.Outdated() {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	}
	switch {
	case !writes(flags) && n.mustReadLocked():
		h.unread = n.head
	case !writes(flags), readsFirst(flags) && !n.knownLocked().Stale(n.head) && !n.knownLocked().WasRefused():
		n.seeLocked()
	}
	n.Cache().Opened(fs.notify.Notices, flags&syscall.O_TRUNC != 0)
	if writes(flags) {
		n.Cache().Write()
		h.heard = span{before, fs.notify.Newest()}
		h.stage = n.beginWriteLocked(flags)
		if h.stage.overtaken || readsFirst(flags) && n.knownLocked().Asks() { // it is to be read first
			h.unread = n.head
		}
		if flags&syscall.O_TRUNC != 0 {
			h.stage.emptyLocked()
			h.changedLocked(thread)
			n.setTimes(time.Now())
		}
		fs.reckonLocked(n, h.stage)
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

// makeFile is Create for what InlineCreate does not answer.
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
	if err := dir.store.catchUp(c.ctx); err != nil {
		fs.mu.RLock()
		kind := classify(dir, name)
		fs.mu.RUnlock()
		if kind == ordinary {
			return dir.store.fail("create", name, err)
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
		if err := pushed.Cache().AwaitPushes(c.ctx, &fs.mu); err != nil {
			return fuse.EINTR
		}
	}
}

// tryCreate is create, unless the file that has the name gets a push: then it returns that, and
// is tried again.
func (fs *fileSystem) tryCreate(c *call, in *fuse.CreateIn, name string, before uint64, out *fuse.CreateOut) (status fuse.Status, pushed *node) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, canonical, status := fs.placeLocked(in.NodeId, name, 0)
	if !status.Ok() {
		return status, nil
	}
	if n := dir.children[canonical]; n != nil && n.had().cache.Pushing() && in.Flags&syscall.O_EXCL == 0 {
		return fuse.OK, n
	}
	if !c.answers() {
		return fuse.EINTR, nil
	}
	return fs.createLocked(in, name, before, out), nil
}

// special reports whether a file is to have bits that no memory has.
func special(mode uint32) bool {
	return mode&(syscall.S_ISUID|syscall.S_ISGID|syscall.S_ISVTX) != 0
}

// createLocked makes a file for a request before which that notice was the newest, or
// opens the one that another session has made.
func (fs *fileSystem) createLocked(in *fuse.CreateIn, name string, before uint64, out *fuse.CreateOut) fuse.Status {
	dir, canonical, status := fs.placeLocked(in.NodeId, name, 0)
	if !status.Ok() {
		return status
	}
	n := dir.children[canonical]
	path, _ := dir.childPath(canonical)
	switch {
	case n == nil:
		if !onlyAppends(in.Flags) {
			if status := dir.store.answerLocked(dir.store.admitNewLocked(path)); !status.Ok() {
				return status
			}
		}
		why := forSaving
		if classify(dir, canonical) == editorScratch {
			why = forScratch
		}
		if err := fs.affordLocked(handleCost+stageCost, why); err != nil {
			return dir.store.tooMuch("create", path, err)
		}
		if hidden := dir.hidden[canonical]; hidden != nil {
			if status := fs.admitLocked(hidden, syscall.O_WRONLY); !status.Ok() {
				return status
			}
		}
		now := time.Now()
		mkstemp, probe := madeUp(dir, canonical, in.Flags, now), in.Flags&syscall.O_EXCL != 0 && isProbe(canonical)
		n = dir.store.makeFileLocked(dir, canonical, in.Mode, now)
		n.setMadeUp(mkstemp, probe)
		n.spellLocked(name)
		if dir.hidden[canonical] == nil {
			dir.store.known.Set(path, session.Nothing())
		}
		fs.openLocked(n, in.Pid, in.Flags|syscall.O_TRUNC, before, &out.OpenOut)
		fs.handles[out.Fh].stage.tails = in.Flags&syscall.O_APPEND != 0
	case n.isDir():
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
	if n.parent != nil {
		n.parent.Cache().ReadBelow.Store(true)
	}
	head, data, unread := n.head, n.content(), h.unread
	switch {
	case h.text != nil:
		data = h.text
	case n.staged(): // copied, since it changes
		size := 0
		if in.Offset < uint64(len(n.stage().data)) {
			size = copy(buf, n.stage().data[in.Offset:])
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
		if n.head == head && n.opens() > 0 {
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
func (fs *fileSystem) readHead(cancel <-chan struct{}, thread uint32, n *node, head *memory.Head) ([]byte, fuse.Status) {
	if cancel == nil || n.store.memory.Near() { // it would take longer to have another goroutine do it
		data, err := fs.content(fs.ctx, n, head)
		if err != nil {
			return nil, n.store.fail("read", head.Path(), err)
		}
		return data, fuse.OK
	}
	return fs.readBeside(cancel, thread, n, head)
}

// readBeside is readHead for a store that may take long.
func (fs *fileSystem) readBeside(cancel <-chan struct{}, thread uint32, n *node, head *memory.Head) (data []byte, status fuse.Status) {
	status = fs.beside(cancel, thread, func(c *call) fuse.Status {
		got, err := fs.content(c.ctx, n, head)
		switch {
		case err != nil:
			return n.store.fail("read", head.Path(), err)
		case !c.answers():
			return fuse.EINTR
		}
		data = got
		return fuse.OK
	})
	return data, status
}

// Release implements fuse.RawFileSystem. What a shared mapping wrote may come
// after the last flush, and is committed here, where no error reaches anybody.
func (fs *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if fs.InlineRelease(in) {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h := fs.dropHandleLocked(in.Fh)
	if h == nil {
		return
	}
	if h.uncommittedLocked() {
		fs.mu.Unlock()
		fs.commitUnheard(h.node, h.stage, released)
		fs.mu.Lock()
	}
	fs.endWriteLocked(h.node, h.stage)
}

// uncommittedLocked reports whether h is the last handle of what is still to be
// committed.
func (h *handle) uncommittedLocked() bool {
	st := h.stage
	return st != nil && st.writers == 1 && st.dirty && !h.node.nowLocked().removed
}
