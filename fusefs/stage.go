package fusefs

import (
	"context"
	"slices"
	"syscall"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// stage is what is being written to a file: its whole content, private to the mount until it is
// committed. All handles that write a file share its stage. Its fields are guarded by
// fileSystem.mu, except lost, which is the session's.
//
// # The life of a write
//
// An open for writing gets the file's stage, or makes one on top of the version that is there
// (beginWriteLocked). A write loads that version's content, notes the base of the write
// (startLocked) and changes the data. A close of one of the file's descriptors commits it, if no
// other close must do that (Flush, committedByAnotherClose): commitFile hands the stage to the
// session as a stagedText, and session.Save explains how that becomes a version, or loses. The
// stage ends with its last handle (endWriteLocked).
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
	attempt attempt

	// If all writes to the stage were at the end, appended is their bytes: they are put at the
	// end of the file as it is at that time.
	appendOnly bool
	appended   []byte

	// fresh says that base was read through a handle that shares the stage, before
	// anything was written.
	fresh bool

	// overtaken says that another session has replaced base, or that base is the version that the
	// session knows and another session replaced it long ago. Bytes that are written then are not
	// committed, but kept as a conflict.
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

// startLocked prepares a stage for its next change. A clean stage that is appended to is based on the
// newest head. Any other first change is lost if it is not based on the newest head.
func startLocked(n *tree.Entry, st *stage, appending bool) {
	switch {
	case !mayLoseLocked(n, st), st.overtaken && (st.dirty || !appending):
	case appending && !st.dirty && st.conflict == 0:
		st.startAppendingLocked(n.TheirsLocked())
	case appending && st.appendOnly, st.dirty && !st.appendOnly: // decided at an earlier change
	default:
		judgeBaseLocked(n, st)
	}
	if !appending {
		st.appendOnly, st.appended = false, nil
	}
	storeOf(n).fs.accountStageLocked(n, st)
}

// mayLoseLocked reports whether the stage can lose against a commit of another session: not if its file
// is removed or is not in the log, nor if the stage is given up.
func mayLoseLocked(n *tree.Entry, st *stage) bool {
	return !n.IsUnloggedLocked() && !n.LatestLocked().IsRemovedLocked() && st.err == 0
}

// startAppendingLocked makes a clean stage one that only appends to the head.
func (st *stage) startAppendingLocked(head *memory.Head) {
	st.appendOnly, st.appended = true, nil
	if st.overtaken || !memory.SameText(st.base, head) {
		st.base, st.overtaken = head, false
		st.data, st.loaded = nil, head == nil
	}
}

// judgeBaseLocked marks the stage as overtaken if the newest head is not the one that the stage is based
// on, or not one that the session knows.
func judgeBaseLocked(n *tree.Entry, st *stage) {
	m, head := n.LatestLocked(), n.TheirsLocked()
	stale := knownLocked(m).Stale(head)
	switch {
	case stale && !st.dirty && !st.overtaken: // once, or it would never be loaded
		st.overtakeLocked(knownLocked(m).Head())
	case stale || m.ParentLocked() == nil || stageOf(n) != st || !memory.SameText(st.base, head):
		st.overtaken = true
	}
}

// outdatedLocked reports whether a clean stage is based on a version that has since
// been replaced: a new writer starts from the new one, and the handles that
// share the old stage are refused should they write.
func outdatedLocked(n *tree.Entry, st *stage) bool {
	return !st.dirty && n.IsMemoryLocked() && !memory.SameVersion(st.base, n.HeadLocked())
}

// endWriteLocked is the end of a writer. If a file is not committed when its last writer ends, only
// scratch files keep the written text, and files that were removed while they were open.
func (fs *fileSystem) endWriteLocked(n *tree.Entry, st *stage) {
	st.writers--
	defer fs.accountStageLocked(n, st)
	if st.writers > 0 || stageOf(n) != st {
		return
	}
	switch {
	case n.IsRemovedLocked():
		isReadable := st.dirty && isStaged(n) && (opensOf(n) > 0 || lookupsOf(n) > 0)
		if !isReadable {
			setStageLocked(n, nil)
		}
	case n.IsUnloggedLocked():
		fs.endUnloggedLocked(n, st)
	case st.hasFailedLocked():
		fs.giveUpLocked(n)
	default:
		setStageLocked(n, nil)
	}
}

// hasFailedLocked reports whether a stage without writers has text that was not committed, or an error.
func (st *stage) hasFailedLocked() bool { return st.dirty || st.err != 0 }

// endUnloggedLocked ends the last writer of a file that is not in the log.
func (fs *fileSystem) endUnloggedLocked(n *tree.Entry, st *stage) {
	isEmptyAgain := !st.hasFailedLocked() && st.base == nil && n.HeadLocked() == nil // every write was undone
	kind := fs.classOfLocked(n)
	switch {
	case isEmptyAgain, st.err != 0:
		fs.giveUpLocked(n)
	case kind == editorScratch:
	case kind == temporary:
		fs.lingerLocked(n)
	default:
		fs.giveUpLocked(n)
	}
}

// giveUpLocked drops what could not be committed: the file is what it was before. The program
// that wrote it was told at write, fsync or close.
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

// beginAttemptLocked notes that the stage is about to be changed through h. atEnd: nothing but
// its length changes. No handle at all is the kernel, which writes back a mapping, or a request
// that is undone in its own way.
func (fs *fileSystem) beginAttemptLocked(st *stage, h *handle, atEnd bool) {
	a := &st.attempt
	switch {
	case h == nil:
		*a = attempt{}
		return
	case a.by != h || !st.dirty:
		*a = attempt{by: h, began: st.mark, clean: !st.dirty, wrote: st.wrote}
	}
	if a.clean || a.copied || atEnd || st.rewrote > a.began.changes {
		return
	}
	before := len(st.data) - int(st.added-a.began.added)
	if before > mapFrom || !fs.budget.fits(int64(before), forSaving) { // then it cannot be undone
		return
	}
	a.copied, a.data = true, slices.Clone(st.data[:before])
	a.appendOnly, a.appended = st.appendOnly, slices.Clone(st.appended)
}

// failedLocked notes that a write through h has failed, undoes the changes of h, and returns the
// part of them that must be kept; nil: nothing.
func (fs *fileSystem) failedLocked(h *handle, errno syscall.Errno) *session.Loss {
	n, st := h.node, h.stage
	fs.setFailedLocked(h, errno, h.undone)
	a := st.attempt
	if a.by != h || !st.dirty || st.overtaken || st.err != 0 {
		return nil
	}
	l := lossLocked(n, st, errno)
	wasAppended := st.appendOnly
	if !fs.undoLocked(n, st) {
		fs.failLocked(n, st, errno)
	}
	fs.setFailedLocked(h, errno, true)
	h.wrote = mark{}
	if !wasAppended || len(l.Yours) == 0 {
		return nil
	}
	return &l
}

// undoLocked makes a stage what it was before the newest attempt, and reports whether that
// can be told.
func (fs *fileSystem) undoLocked(n *tree.Entry, st *stage) bool {
	a := st.attempt
	switch {
	case a.clean || a.began.changes < st.committed:
		st.data, st.loaded, st.dirty, st.wrote = nil, st.base == nil, false, false
		st.appendOnly, st.appended, st.first = true, nil, st.last
	case a.copied:
		st.data, st.wrote, st.appendOnly, st.appended = a.data, a.wrote, a.appendOnly, a.appended
	case st.rewrote <= a.began.changes:
		added := int(st.added - a.began.added)
		st.data, st.wrote = st.data[:len(st.data)-added], a.wrote
		st.appended = st.appended[:max(0, len(st.appended)-added)]
	default:
		return false
	}
	st.attempt = attempt{}
	st.changes++
	st.rewrote, st.whole, st.pageEnd = st.changes, st.mark, false
	fs.accountStageLocked(n, st)
	fs.handing.rebasedLocked(st)
	fs.notify.contentLocked(n)
	return true
}

// lossLocked is a stage of n that is not committed, as an error has said.
func lossLocked(n *tree.Entry, st *stage, errno syscall.Errno) session.Loss {
	path, _ := n.TargetLocked()
	return session.Loss{
		Path: path, Base: st.base, Theirs: n.TheirsLocked(), Yours: slices.Clone(st.data), Mark: st.changes, Conflict: st.conflict,
		Why: errno.Error(), Noted: true,
	}
}

// keepUndone keeps what was undone; nil is nothing.
func (fs *fileSystem) keepUndone(n *tree.Entry, l *session.Loss) {
	if l != nil {
		storeOf(n).session.Keep(fs.ctx, *l)
	}
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

// poisonLocked gives a stage of n up for the rest of its handles' lives.
func (fs *fileSystem) poisonLocked(n *tree.Entry, st *stage, errno syscall.Errno) {
	st.err, st.data, st.dirty = errno, nil, false
	st.appended, st.attempt = nil, attempt{}
	storeOf(n).session.GiveUp(&st.lost)
	fs.accountStageLocked(n, st)
	fs.notify.contentLocked(n)
}
