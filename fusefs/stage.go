package fusefs

import (
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// stage is what is being written to a file: its whole content, private to the
// mount until it is committed. All handles that write a file share its stage.
// Its fields are guarded by fileSystem.mu.
type stage struct {
	base    *memory.Head // what the content replaces; nil: no memory
	data    []byte       // once loaded
	loaded  bool
	dirty   bool          // data differs from base, or may
	wrote   bool          // some of the difference is more than an emptied file
	err     syscall.Errno // why the stage is given up; stays until its handles are closed
	writers int           // open handles
	held    int64         // what the budget has of it
	mapping []byte        // that data is in; nil: it is on the heap. See mapFrom

	progress
	appending

	// Of a stage to which nothing was done but to write at the end, tail is
	// what was written: it is put at the end of whatever the file is by then.
	tails bool
	tail  []byte

	// fresh says that base was read through a handle that shares the stage, before
	// anything was written.
	fresh bool

	// overtaken says that another session has replaced base, or that base is
	// what the session knows and somebody else replaced it long ago. What is
	// written then is not committed, but kept as a conflict.
	overtaken  bool
	conflict   int    // its number; noConflict when it could not be kept, 0 when there is none
	conflictAt uint64 // what changes was then

	attempt *draft   // a commit of which it is not known whether it is in the log
	spooled *spooled // what survives the mount of a file that is not committed; nil: nothing
}

// staged reports whether readers get the stage's data instead of the head's.
func (n *node) staged() bool {
	return n.stage() != nil && n.stage().loaded && n.stage().err == 0 && !n.stage().overtaken
}

// beginWrite returns the stage for one more writer of n, which admit has let
// in. Caller holds fs.mu.
func (n *node) beginWrite(flags uint32) *stage {
	m, fs := n.now(), n.store.fs
	st, stale := n.stage(), m.known().Stale(m.head) && !onlyAppends(flags)
	if st == nil || st.err != 0 || st.overtaken || stale || m != n || n.outdated(st) {
		n.setStage(&stage{base: m.head, loaded: m.head == nil, tails: true})
		if stale {
			n.stage().overtake(m.known().Head())
		}
		fs.reckon(n, st)
	}
	n.stage().writers++
	fs.reckon(n, n.stage())
	return n.stage()
}

// overtake makes a clean stage one that is based on what the session knows.
// Caller holds fs.mu.
func (st *stage) overtake(known *memory.Head) {
	st.base, st.overtaken = known, true
	st.data, st.loaded = nil, known == nil
}

// start prepares a stage for its next change. A clean one that is to be
// appended to takes the newest head; any other change is lost if it is not
// based on what is there. Caller holds fs.mu.
func (n *node) start(st *stage, appending bool) {
	m, head := n.now(), n.theirs()
	switch {
	case n.local || m.removed || st.err != 0 || st.overtaken && (st.dirty || !appending):
	case appending && !st.dirty && st.conflict == 0:
		st.tails, st.tail = true, nil
		if st.overtaken || !memory.SameText(st.base, head) {
			st.base, st.overtaken = head, false
			st.data, st.loaded = nil, head == nil
		}
	case appending && st.tails || st.dirty && !st.tails:
	case m.known().Stale(head) && !st.dirty && !st.overtaken: // once, or it would never be loaded
		st.overtake(m.known().Head())
	case m.known().Stale(head) || m.parent == nil || n.stage() != st || !memory.SameText(st.base, head):
		st.overtaken = true
	}
	if !appending {
		st.tails, st.tail = false, nil
	}
	n.store.fs.reckon(n, st)
}

// outdated reports whether a clean stage is based on a version that has since
// been replaced: a new writer starts from the new one, and the handles that
// share the old stage are refused should they write. Caller holds fs.mu.
func (n *node) outdated(st *stage) bool {
	return !st.dirty && n.isMemory() && !memory.SameVersion(st.base, n.head)
}

// endWrite is the end of a writer. Of a file that still is not committed when
// its last writer ends, only scratch files keep what was written.
// Caller holds fs.mu.
func (fs *fileSystem) endWrite(n *node, st *stage) {
	st.writers--
	defer fs.reckon(n, st)
	if st.writers > 0 || n.stage() != st {
		return
	}
	failed := st.dirty || st.err != 0
	switch {
	case n.removed, !n.local && !failed:
		n.setStage(nil)
	case n.local && st.err == 0 && fs.classOf(n) == editorScratch:
	case n.local && st.err == 0 && fs.classOf(n) == temporary:
		fs.linger(n)
	default:
		fs.giveUp(n)
	}
}

// giveUp drops what could not be committed: the file is what it was before.
// Who wrote it was told at write, fsync or close. Caller holds fs.mu.
func (fs *fileSystem) giveUp(n *node) {
	n.setStage(nil)
	fs.notify.content(n)
	if n.head == nil && n.hasName() {
		if path, ok := n.path(); ok {
			n.store.known.Left(path)
		}
		dir := n.parent
		fs.notify.entry(dir, n.name)
		fs.detach(n)
		n.store.prune(dir)
	}
}

func (fs *fileSystem) classOf(n *node) scratchKind {
	if n.parent == nil {
		return ordinary
	}
	if n.probe && (n.stage() == nil || len(n.stage().data) == 0) {
		return editorScratch
	}
	if kind := classify(n.parent, n.name); kind != ordinary || !n.mkstemp {
		return kind
	}
	return temporary
}

// empty makes the stage an empty file. Caller holds fs.mu.
func (st *stage) empty() {
	st.tails, st.tail = false, nil
	st.data, st.loaded, st.dirty, st.wrote, st.fresh = nil, true, true, false, false
	st.changes++
	st.rewrote = st.changes
}

// resize makes the stage size bytes long, with zeros where it grows. ENOMEM.
// Caller holds fs.mu and has loaded the stage.
func (st *stage) resize(size int) error {
	if err := st.setLen(size); err != nil {
		return err
	}
	st.dirty, st.wrote = true, true
	st.changes++
	return nil
}

// load prepares a stage for a change, and fills it with the content it is based
// on. When it returns nil the caller holds fs.mu.
func (fs *fileSystem) load(n *node, st *stage, appending bool) error {
	for {
		fs.mu.Lock()
		n.start(st, appending)
		if st.loaded || st.err != 0 {
			return nil
		}
		base := st.base
		fs.mu.Unlock()
		data, err := n.store.memory.ContentOf(fs.ctx, base)
		if err != nil {
			return err
		}
		fs.mu.Lock()
		if !st.loaded && st.base == base {
			if err := fs.affordStage(n, st, int64(len(data)), 0); err != nil {
				fs.mu.Unlock()
				return err
			}
			st.data, st.loaded = slices.Clone(data), true
			fs.reckon(n, st)
		}
		fs.mu.Unlock()
	}
}

// limit is how many bytes n may have. Caller holds fs.mu.
func (fs *fileSystem) limit(n *node) int64 {
	limit := n.store.memory.Info().Limits.MaxMemoryBytes
	if n.local && fs.classOf(n) == editorScratch {
		return max(limit, maxScratchBytes)
	}
	return limit
}

// Write implements fuse.RawFileSystem.
func (fs *fileSystem) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return fs.write(in, [][]byte{data})
}

// Writev implements fuse.RawFileSystem.
func (fs *fileSystem) Writev(_ <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	return fs.write(in, data)
}

func (fs *fileSystem) write(in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if size, status, answered := fs.promptWrite(in, data); answered {
		return size, status
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	fs.mu.RUnlock()
	if fs.quiet {
		return 0, fs.refuseQuietly(in.NodeId)
	}
	if h == nil || h.stage == nil {
		return 0, fuse.EBADF
	}
	n, st := h.node, h.stage
	if err := fs.load(n, st, appends(in)); err != nil {
		return 0, n.store.fail("write", fs.where(n), err)
	}
	size, status := fs.writeLoaded(h, in, data)
	doomed := fs.doomed(n, st)
	fs.mu.Unlock()
	if status.Ok() && doomed {
		return 0, fs.loseMore(n, st)
	}
	return size, status
}

// doomed reports whether what is written to a stage will not be committed, so that
// who writes is to hear of it at once. Caller holds fs.mu.
func (fs *fileSystem) doomed(n *node, st *stage) bool {
	return st.overtaken && !fs.opts.Merge && !n.now().removed
}

// writeLoaded does a write to a handle whose stage is loaded. Caller holds fs.mu.
func (fs *fileSystem) writeLoaded(h *handle, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	n, st := h.node, h.stage
	if st.err != 0 {
		return 0, fuse.Status(st.err)
	}
	size := 0
	for _, part := range data {
		size += len(part)
	}
	at := int64(in.Offset)
	if appends(in) && at != int64(len(st.data)) {
		at = int64(len(st.data))
		fs.notify.content(n)
	}
	end := at + int64(size)
	if limit := fs.limit(n); end > limit {
		return 0, fs.tooBig(n, st, end)
	}
	if err := fs.affordStage(n, st, end, int64(size)); err != nil {
		return 0, n.store.tooMuch("write", n.madeFor(), err)
	}
	st.begins(in.Pid)
	before := st.changes
	atEnd := at == int64(len(st.data))
	if int(end) > len(st.data) {
		if err := st.resize(int(end)); err != nil {
			return 0, n.store.fail("write", n.madeFor(), err)
		}
	}
	for _, part := range data {
		at += int64(copy(st.data[at:], part))
		if st.tails {
			st.tail = append(st.tail, part...)
		}
	}
	st.dirty, st.wrote = true, true
	st.changes++
	fs.handing.wrote(st, before, end-int64(size), data)
	if atEnd {
		st.added += uint64(size)
	} else {
		st.rewrote = st.changes
	}
	if in.WriteFlags&fuse.WRITE_CACHE != 0 { // of a mapping: the kernel guesses the handle
		st.anyones = st.changes
	}
	st.ends(in.Pid, in.Offset+uint64(size))
	h.changed(in.Pid)
	n.mtime = time.Now()
	n.ctime = n.mtime
	n.mark()
	if st.tails {
		fs.appended(st, n.mtime)
	}
	fs.reckon(n, st)
	return uint32(size), fuse.OK
}

// appends reports whether a write goes to the end of the file, wherever that
// is. The kernel's offset is where the end was when it last heard of it, which
// may be before another session's change.
func appends(in *fuse.WriteIn) bool {
	return in.Flags&syscall.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
}

// tooBig gives the stage up, which a write would have made at least size bytes
// long: nothing of it is committed. Caller holds fs.mu.
func (fs *fileSystem) tooBig(n *node, st *stage, size int64) fuse.Status {
	path := n.madeFor()
	status := n.store.fail("write", path, &memory.SizeError{Path: path, Size: size, Partial: true, Limit: fs.limit(n)})
	fs.poison(n, st, syscall.Errno(status))
	return status
}

// poison gives a stage of n up for the rest of its handles' lives. Caller holds fs.mu.
func (fs *fileSystem) poison(n *node, st *stage, errno syscall.Errno) {
	st.err, st.data, st.dirty = errno, nil, false
	st.tail, st.attempt = nil, nil
	fs.reckon(n, st)
	fs.notify.content(n)
}

// truncate sets n's size for SetAttr. With a handle the change is committed
// when that is closed; without one, here.
func (fs *fileSystem) truncate(n *node, in *fuse.SetAttrIn, size uint64) fuse.Status {
	if n.isDir() {
		return fuse.Status(syscall.EISDIR)
	}
	fs.mu.RLock()
	limit := fs.limit(n)
	fs.mu.RUnlock()
	if size > uint64(limit) {
		path := fs.where(n)
		return n.store.fail("truncate", path, &memory.SizeError{Path: path, Size: int64(min(size, 1<<62)), Limit: limit})
	}
	fh, ok := in.GetFh()
	fs.mu.Lock()
	h := fs.handles[fh]
	if ok && h != nil && h.stage != nil {
		fs.mu.Unlock()
		status := fs.setSize(n, h.stage, int(size))
		fs.mu.Lock()
		defer fs.mu.Unlock()
		h.changed(in.Pid)
		return status
	}
	fs.mu.Unlock()

	if status := fs.catchUp(n); !status.Ok() {
		return status
	}
	if err := n.Cache().AwaitPushes(fs.ctx, &fs.mu); err != nil {
		return fuse.EINTR
	}
	fs.mu.Lock()
	if m, status := fs.found(n, in.Pid, syscall.O_WRONLY); m == nil {
		fs.mu.Unlock()
		return status
	}
	if status := fs.admit(n.now(), syscall.O_WRONLY); !status.Ok() {
		fs.mu.Unlock()
		return status
	}
	st := n.beginWrite(syscall.O_WRONLY)
	fs.mu.Unlock()
	status := fs.truncateNow(n, st, int(size))
	fs.tellName(n)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.endWrite(n, st)
	return status
}

// truncateNow sets n's size and commits it. When that fails, other writers of
// the file go on with what they had.
func (fs *fileSystem) truncateNow(n *node, st *stage, size int) fuse.Status {
	fs.mu.Lock()
	more := int64(len(st.data) + len(st.tail)) // for the copy
	if err := fs.afford(more, fs.purposeOf(n)); err != nil {
		defer fs.mu.Unlock()
		return n.store.tooMuch("truncate", n.madeFor(), err)
	}
	fs.budget.change(more)
	defer fs.giveBack(&more)
	before := st.copied()
	fs.mu.Unlock()
	if err := fs.load(n, st, false); err != nil {
		return n.store.fail("truncate", fs.where(n), err)
	}
	if st.changes != before.changes || before.attempt != nil {
		before = st.copied()
	}
	changes := before.changes
	if size != len(st.data) {
		changes++
	}
	fs.mu.Unlock()
	status := fs.setSize(n, st, size)
	if status.Ok() {
		status = fs.commitFile(n, st, saved)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if status.Ok() || st.err != 0 || st.changes != changes {
		return status
	}
	if before.attempt == nil && st.attempt == nil {
		before.writers, before.held, before.mapping = st.writers, st.held, st.mapping
		*st = before
	} else { // its commit may be in the log
		st.data, st.dirty, st.wrote = before.data, before.dirty, before.wrote
	}
	fs.reckon(n, st)
	st.changes = changes + 1
	st.rewrote, st.anyones = st.changes, st.changes
	fs.notify.content(n)
	return status
}

// copied is the stage with bytes of its own. Caller holds fs.mu.
func (st *stage) copied() stage {
	c := *st
	c.data, c.tail = slices.Clone(st.data), slices.Clone(st.tail)
	return c
}

func (fs *fileSystem) setSize(n *node, st *stage, size int) fuse.Status {
	if err := fs.load(n, st, false); err != nil {
		return n.store.fail("truncate", fs.where(n), err)
	}
	status := fuse.Status(st.err)
	if status.Ok() {
		if err := fs.affordStage(n, st, int64(size), 0); err != nil {
			status = n.store.tooMuch("truncate", n.madeFor(), err)
		}
	}
	if status.Ok() {
		if size != len(st.data) {
			if err := st.resize(size); err != nil {
				fs.mu.Unlock()
				return n.store.fail("truncate", fs.where(n), err)
			}
			st.rewrote = st.changes
			fs.reckon(n, st)
		}
		n.mtime = time.Now()
		n.mark()
	}
	doomed := st.dirty && fs.doomed(n, st)
	fs.mu.Unlock()
	if status.Ok() && doomed {
		return fs.loseMore(n, st)
	}
	return status
}
