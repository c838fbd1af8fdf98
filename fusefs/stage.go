package fusefs

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// stage is what is being written to a file: its whole content, private to the
// mount until it is committed. All handles that write a file share its stage.
// Its fields are guarded by fileSystem.mu, but lost, which is the session's.
//
// # The life of a write
//
// An open for writing gets the file's stage, or makes one on top of the version that is
// there (beginWriteLocked). A write loads that version's content, says what the write is
// based on (startLocked) and changes the data. A close of one of the file's descriptors
// commits it, if no other close is to do that (Flush, committedByAnotherClose): commitFile hands the stage
// to the session as a stagedText, and session.Save explains how that becomes a version, or
// loses. The stage ends with its last handle (endWriteLocked).
type stage struct {
	written

	writers int               // open handles
	held    int64             // what the budget has of it
	mapping []byte            // that data is in; nil: it is on the heap. See mapFrom
	lost    session.LostReply // a commit of which it is not known whether it is in the log
}

// written is what a stage holds.
type written struct {
	base   *memory.Head // what the content replaces; nil: no memory
	data   []byte       // once loaded
	loaded bool
	dirty  bool          // data differs from base, or may
	wrote  bool          // some of the difference is more than an emptied file
	err    syscall.Errno // why the stage is given up; stays until its handles are closed

	progress
	appending

	// Of a stage to which nothing was done but to write at the end, appended is
	// what was written: it is put at the end of whatever the file is by then.
	appendOnly bool
	appended   []byte

	// fresh says that base was read through a handle that shares the stage, before
	// anything was written.
	fresh bool

	// overtaken says that another session has replaced base, or that base is
	// what the session knows and somebody else replaced it long ago. What is
	// written then is not committed, but kept as a conflict.
	overtaken  bool
	conflict   int    // its number; session.NotKept when it could not be kept, which is tried again; 0 when there is none
	conflictAt uint64 // what changes was then

	spooled *spooled // what survives the mount of a file that is not committed; nil: nothing
}

// isKeptLocked reports whether a conflict has all that was written.
func (st *stage) isKeptLocked() bool { return st.conflict > 0 && st.wasKeptLocked() }

// wasKeptLocked reports whether all that was written was to be kept: it is, or could not be.
func (st *stage) wasKeptLocked() bool { return st.conflict != 0 && st.conflictAt == st.changes }

// isStaged reports whether readers get the stage's data instead of the head's.
func isStaged(n *tree.Entry) bool {
	return stageOf(n) != nil && stageOf(n).loaded && stageOf(n).err == 0 && !stageOf(n).overtaken
}

// beginWriteLocked returns the stage for one more writer of n, which admit has let
// in.
func beginWriteLocked(n *tree.Entry, flags uint32) *stage {
	m, fs := n.LatestLocked(), storeOf(n).fs
	st, stale := stageOf(n), knownLocked(m).Stale(m.HeadLocked()) && !onlyAppends(flags)
	if st == nil || st.err != 0 || st.overtaken || stale || m != n || outdatedLocked(n, st) {
		setStageLocked(n, &stage{written: written{base: m.HeadLocked(), loaded: m.HeadLocked() == nil, appendOnly: true}})
		if stale {
			stageOf(n).overtakeLocked(knownLocked(m).Head())
		}
		fs.accountStageLocked(n, st)
	}
	stageOf(n).writers++
	fs.accountStageLocked(n, stageOf(n))
	return stageOf(n)
}

// overtakeLocked makes a clean stage one that is based on what the session knows.
func (st *stage) overtakeLocked(known *memory.Head) {
	st.base, st.overtaken = known, true
	st.data, st.loaded = nil, known == nil
}

// startLocked prepares a stage for its next change. A clean one that is to be
// appended to takes the newest head; any other change is lost if it is not
// based on what is there.
func startLocked(n *tree.Entry, st *stage, appending bool) {
	m, head := n.LatestLocked(), n.TheirsLocked()
	switch {
	case n.IsUnloggedLocked() || m.IsRemovedLocked() || st.err != 0 || st.overtaken && (st.dirty || !appending):
	case appending && !st.dirty && st.conflict == 0:
		st.appendOnly, st.appended = true, nil
		if st.overtaken || !memory.SameText(st.base, head) {
			st.base, st.overtaken = head, false
			st.data, st.loaded = nil, head == nil
		}
	case appending && st.appendOnly || st.dirty && !st.appendOnly:
	case knownLocked(m).Stale(head) && !st.dirty && !st.overtaken: // once, or it would never be loaded
		st.overtakeLocked(knownLocked(m).Head())
	case knownLocked(m).Stale(head) || m.ParentLocked() == nil || stageOf(n) != st || !memory.SameText(st.base, head):
		st.overtaken = true
	}
	if !appending {
		st.appendOnly, st.appended = false, nil
	}
	storeOf(n).fs.accountStageLocked(n, st)
}

// outdatedLocked reports whether a clean stage is based on a version that has since
// been replaced: a new writer starts from the new one, and the handles that
// share the old stage are refused should they write.
func outdatedLocked(n *tree.Entry, st *stage) bool {
	return !st.dirty && n.IsMemoryLocked() && !memory.SameVersion(st.base, n.HeadLocked())
}

// endWriteLocked is the end of a writer. Of a file that still is not committed when
// its last writer ends, only scratch files keep what was written, and files that were
// removed while they were open.
func (fs *fileSystem) endWriteLocked(n *tree.Entry, st *stage) {
	st.writers--
	defer fs.accountStageLocked(n, st)
	if st.writers > 0 || stageOf(n) != st {
		return
	}
	failed := st.dirty || st.err != 0
	switch {
	case n.IsRemovedLocked() && st.dirty && isStaged(n) && (opensOf(n) > 0 || lookupsOf(n) > 0): // as long as somebody can read it
	case n.IsRemovedLocked(), !n.IsUnloggedLocked() && !failed:
		setStageLocked(n, nil)
	case n.IsUnloggedLocked() && st.err == 0 && fs.classOfLocked(n) == editorScratch:
	case n.IsUnloggedLocked() && st.err == 0 && fs.classOfLocked(n) == temporary:
		fs.lingerLocked(n)
	default:
		fs.giveUpLocked(n)
	}
}

// giveUpLocked drops what could not be committed: the file is what it was before.
// Who wrote it was told at write, fsync or close.
func (fs *fileSystem) giveUpLocked(n *tree.Entry) {
	setStageLocked(n, nil)
	fs.notify.contentLocked(n)
	if n.HeadLocked() == nil && n.HasNameLocked() {
		if path, ok := n.PathLocked(); ok {
			storeOf(n).known.Went(path)
		}
		dir := n.ParentLocked()
		fs.notify.entryLocked(dir, n.NameLocked())
		storeOf(n).tree.DetachLocked(n)
		storeOf(n).tree.PruneLocked(dir)
	}
}

func (fs *fileSystem) classOfLocked(n *tree.Entry) scratchKind {
	if n.ParentLocked() == nil {
		return ordinary
	}
	if n.IsProbeLocked() && (stageOf(n) == nil || len(stageOf(n).data) == 0) {
		return editorScratch
	}
	if kind := classifyLocked(n.ParentLocked(), n.NameLocked()); kind != ordinary || !n.IsMkstempLocked() {
		return kind
	}
	return temporary
}

// emptyLocked makes the stage an empty file.
func (st *stage) emptyLocked() {
	st.appendOnly, st.appended = false, nil
	st.data, st.loaded, st.dirty, st.wrote, st.fresh = nil, true, true, false, false
	st.changes++
	st.rewrote = st.changes
}

// resizeLocked makes the stage size bytes long, with zeros where it grows. ENOMEM.
// It is loaded.
func (st *stage) resizeLocked(size int) error {
	if err := st.setLenLocked(size); err != nil {
		return err
	}
	st.dirty, st.wrote = true, true
	st.changes++
	return nil
}

// withLoaded prepares a stage for a change, fills it with the content that it is based
// on, and then does something under fs.mu, unless that fails.
func (fs *fileSystem) withLoaded(ctx context.Context, n *tree.Entry, st *stage, appending bool, doLocked func()) error {
	for {
		base := fs.ifLoaded(n, st, appending, doLocked)
		if base == nil {
			return nil
		}
		data, err := storeOf(n).memory.ContentOf(ctx, base)
		if err != nil {
			return err
		}
		if err := fs.fill(n, st, base, data); err != nil {
			return err
		}
	}
}

// ifLoaded is withLoaded for a stage that has its content, or is given up; for another it
// returns whose content that needs.
func (fs *fileSystem) ifLoaded(n *tree.Entry, st *stage, appending bool, doLocked func()) (base *memory.Head) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	startLocked(n, st, appending)
	if !st.loaded && st.err == 0 {
		return st.base
	}
	doLocked()
	return nil
}

// fill gives a stage the content that it is based on, unless that has changed meanwhile.
func (fs *fileSystem) fill(n *tree.Entry, st *stage, base *memory.Head, data []byte) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if st.loaded || st.base != base {
		return nil
	}
	if err := fs.affordStageLocked(n, st, int64(len(data)), 0); err != nil {
		return err
	}
	st.data, st.loaded = slices.Clone(data), true
	fs.accountStageLocked(n, st)
	return nil
}

// limitLocked is how many bytes n may have.
func (fs *fileSystem) limitLocked(n *tree.Entry) int64 {
	limit := storeOf(n).memory.Info().Limits.MaxMemoryBytes
	if n.IsUnloggedLocked() && fs.classOfLocked(n) == editorScratch {
		return max(limit, maxScratchBytes)
	}
	return limit
}

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
		putLocked := func() {
			if status = fuse.EINTR; c.answers() { // so that the data is still the request's
				size, status = fs.writeLoadedLocked(h, &req, data)
				toBeLost = fs.willBeLostLocked(n, st)
			}
		}
		switch err := fs.withLoaded(c.ctx, n, st, appends(&req), putLocked); {
		case err != nil:
			return storeOf(n).fail("write", fs.where(n), err)
		case status.Ok() && toBeLost:
			return fs.loseMore(n, st)
		}
		return status
	})
	if !status.Ok() {
		size = 0
	}
	return size, status
}

// willBeLostLocked reports whether what is written to a stage will not be committed, so that
// who writes is to hear of it at once.
func (fs *fileSystem) willBeLostLocked(n *tree.Entry, st *stage) bool {
	return st.overtaken && !fs.opts.Merge && !n.LatestLocked().IsRemovedLocked()
}

// writeLoadedLocked does a write to a handle whose stage is loaded.
func (fs *fileSystem) writeLoadedLocked(h *handle, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
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
		fs.notify.contentLocked(n)
	}
	end := at + int64(size)
	if limit := fs.limitLocked(n); end > limit {
		return 0, fs.tooBigLocked(n, st, end)
	}
	if err := fs.affordStageLocked(n, st, end, int64(size)); err != nil {
		return 0, storeOf(n).tooMuch("write", madeForLocked(n), err)
	}
	st.beginsLocked(in.Pid)
	before := st.changes
	atEnd := at == int64(len(st.data))
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
	n.SetTimesLocked(time.Now())
	markLocked(n)
	if st.appendOnly {
		fs.appendedLocked(st, n.MTimeLocked())
	}
	fs.accountStageLocked(n, st)
	return uint32(size), fuse.OK
}

// appends reports whether a write goes to the end of the file, wherever that
// is. The kernel's offset is where the end was when it last heard of it, which
// may be before another session's change.
func appends(in *fuse.WriteIn) bool {
	return in.Flags&syscall.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
}

// tooBigLocked gives the stage up, which a write would have made at least size bytes
// long: nothing of it is committed.
func (fs *fileSystem) tooBigLocked(n *tree.Entry, st *stage, size int64) fuse.Status {
	path := madeForLocked(n)
	status := storeOf(n).fail("write", path, &memory.SizeError{Path: path, Size: size, Partial: true, Limit: fs.limitLocked(n)})
	fs.failLocked(n, st, syscall.Errno(status))
	return status
}

// poisonLocked gives a stage of n up for the rest of its handles' lives.
func (fs *fileSystem) poisonLocked(n *tree.Entry, st *stage, errno syscall.Errno) {
	st.err, st.data, st.dirty = errno, nil, false
	st.appended = nil
	storeOf(n).session.GiveUp(&st.lost)
	fs.accountStageLocked(n, st)
	fs.notify.contentLocked(n)
}
