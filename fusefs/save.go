package fusefs

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/errkind"
	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// occasion is what a file is saved for.
type occasion int

const (
	saved    occasion = iota // it is closed or truncated
	synced                   // it is synced
	released                 // its last handle is gone
	lingered                 // it is a temporary file that was left alone
	ending                   // the mount ends
	unasked                  // it has grown, and no program has closed it
)

// alone reports whether there is nothing to commit when a program has opened the file to write it
// again: the close of that will come.
func (o occasion) alone() bool { return o == released || o == lingered }

// commitFile makes what was written to a file a version, if it changed
// anything. Scratch files go to the spool instead, temporary ones unless they
// have lingered.
func (fs *fileSystem) commitFile(n *tree.Entry, st *stage, why occasion) fuse.Status {
	return fs.commitUpTo(n, st, why, nil)
}

// commitUpTo is commitFile for the stage as it was at a mark, if the later writes can be told
// apart; nil is the newest.
func (fs *fileSystem) commitUpTo(n *tree.Entry, st *stage, why occasion, upTo *mark) fuse.Status {
	defer storeOf(n).dropSettled()
	t := &stagedText{n: n, st: st, why: why, upTo: upTo}
	defer fs.giveBack(&t.copied)
	return t.answer(storeOf(n).session.Save(fs.ctx, t, &session.SaveOptions{Unasked: why == unasked}))
}

// stagedText is a stage as the session saves it: session.Save describes the life of a write, and
// session.Text says when each of these methods is called.
type stagedText struct {
	n      *tree.Entry
	st     *stage
	why    occasion
	upTo   *mark
	path   string // of the newest draft that was to be committed
	copied int64  // what the budget has of the draft
}

// Turn is shared by the stages of a file.
func (t *stagedText) Turn() *session.Turn { return &ownInode(t.n).turn }

// LostReply lies with the stage.
func (t *stagedText) LostReply() *session.LostReply { return &t.st.lost }

// Path is where the file is now, or the file that has taken its place.
func (t *stagedText) Path() string {
	fs := storeOf(t.n).fs
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	path, _ := t.n.TargetLocked()
	return path
}

// Draft takes the next draft from the stage, or says why nothing is committed.
func (t *stagedText) Draft(decided string) (*session.Draft, error) {
	fs := storeOf(t.n).fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if t.st.err != 0 {
		return nil, t.st.err
	}
	d := t.draftLocked(decided)
	if d != nil {
		fs.budget.change(int64(len(d.Data)) - t.copied)
		t.copied = int64(len(d.Data))
	}
	return d, nil
}

// draftLocked is Draft for a stage that is not given up. At the path that is decided,
// the tree, which the follower may not have brought so far, is not asked.
func (t *stagedText) draftLocked(decided string) *session.Draft {
	n, st := t.n, t.st
	m, fs := n.LatestLocked(), storeOf(n).fs
	if !st.dirty || m.IsRemovedLocked() || t.why.alone() && st.writers > 1 {
		return nil
	}
	if n.IsUnloggedLocked() {
		kind := fs.classOfLocked(n)
		if kind == editorScratch || kind == temporary && t.why != lingered && t.why != ending {
			return t.spoolLocked()
		}
	}
	if t.upTo != nil && t.upTo.changes <= st.committed { // by another close
		return nil
	}
	later := fs.laterLocked(st, t.upTo)
	path, there := n.TargetLocked()
	d := &session.Draft{
		Path: path, Data: slices.Clone(st.data[:len(st.data)-later]), Base: st.base, Theirs: n.TheirsLocked(),
		Append: st.appendOnly, Added: len(st.appended) - later, Mark: st.changes,
	}
	if later > 0 {
		d.Mark = t.upTo.changes
	}
	d.Key, d.Used = st.spooledKeyLocked(d.Mark)
	moved := (m != n || !there) && path != decided
	if d.Lost = t.isLostLocked(d, there, moved); d.Lost {
		return d
	}
	if moved {
		d.Base = d.Theirs // only its path is another
	}
	t.settleBaseLocked(d)
	return d
}

// isLostLocked reports whether another session took the file's name away, or changed the file. A text
// that is only appended needs a path and a base that is the same, and not a name of its own (there).
func (t *stagedText) isLostLocked(d *session.Draft, there, moved bool) bool {
	switch {
	case d.Path == "", t.st.overtaken:
		return true
	case !t.st.appendOnly && (stageOf(t.n) != t.st || !there):
		return true
	}
	return moved && !memory.SameText(t.st.base, d.Theirs)
}

// settleBaseLocked says what a draft replaces, and by what it is judged.
func (t *stagedText) settleBaseLocked(d *session.Draft) {
	n, st := t.n, t.st
	if n.HasUnloggedNameLocked() {
		d.Base = nil
		if hidden := n.ParentLocked().HiddenAtLocked(n.NameLocked()); hidden != nil {
			d.Base = knownLocked(hidden).Expected(hidden.HeadLocked())
		}
	}
	if n.IsUnloggedLocked() {
		d.Spelling = n.SpellingAtLocked(d.Path)
	}
	if d.Base != nil && !n.IsUnloggedLocked() && int64(len(d.Data)) == d.Base.Size() {
		d.Digest = cas.Sum(d.Data)
		d.Unchanged = d.Digest == d.Base.Digest()
	}
	isMapped := st.anyones > st.committed
	if !st.appendOnly && !d.Unchanged && (!st.fresh || isMapped) {
		d.Judge, d.Mapped = knownLocked(n).ToJudge(), st.fresh
	}
}

// Beside remembers the mode of a file that becomes a memory. A stage that can never be
// committed, since it is too big, its path cannot be a memory's, or the store's policy holds it
// back, is given up.
// Whatever else the error is may go away, so the stage stays for the next fsync or close.
func (t *stagedText) Beside(d *session.Draft, commit func() error) error {
	t.path = d.Path
	s := storeOf(t.n)
	err := s.keepingMode(t.n, d.Path, d.Base, func() error {
		if d.Unchanged {
			return commit()
		}
		return s.tried(commit)
	})
	if t.why != unasked && (errors.Is(err, versionlog.ErrOverlap) || errors.Is(err, memory.ErrTooBig) || errkind.Of(err) == errkind.Policy) {
		s.fs.mu.Lock()
		l := lossLocked(t.n, t.st, errnoOf(err))
		s.fs.poisonLocked(t.n, t.st, errnoOf(err))
		s.fs.mu.Unlock()
		if d.Append && errors.Is(err, memory.ErrTooBig) { // a log has its lines nowhere else
			s.fs.keepUndone(t.n, &l)
		}
	}
	return err
}

// Met shows what has the file's place in the log.
func (t *stagedText) Met(_ *session.Draft, theirs *versionlog.Version) {
	fs := storeOf(t.n).fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t.n.MetAtPathLocked(theirs)
}

// Rebase gives the stage the base theirs.
func (t *stagedText) Rebase(d *session.Draft, theirs *memory.Head, content []byte) bool {
	n, st, fs := t.n, t.st, storeOf(t.n).fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	path, _ := n.TargetLocked()
	switch {
	case n.LatestLocked().IsRemovedLocked() || st.err != 0:
		return false
	case path != d.Path:
		return d.Append // which the next draft puts at the end of the current text
	case d.Append && st.appendOnly:
		content = slices.Concat(content, st.appended)
	case d.Append || st.changes != d.Mark:
		return false
	}
	if was := stageOf(n); was == nil || was.overtaken || was == st {
		setStageLocked(n, st)
		fs.accountStageLocked(n, was)
	}
	st.base, st.data, st.loaded, st.overtaken = theirs, content, true, false
	if !st.appendOnly { // what others have changed is in it
		st.attempt = attempt{}
	}
	fs.accountStageLocked(n, st)
	fs.handing.rebasedLocked(st)
	fs.notify.contentLocked(n)
	return true
}

// Committed brings the version that holds the draft into the tree.
func (t *stagedText) Committed(d *session.Draft, v *versionlog.Version, c *versionlog.Commit) {
	s := storeOf(t.n)
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if c != nil {
		s.commits.Add(1)
	}
	if v.Redacted() {
		t.erasedLocked(d, c)
		return
	}
	t.committedLocked(d, v)
}

// committedLocked is Committed also for a commit that the follower has met.
func (t *stagedText) committedLocked(d *session.Draft, v *versionlog.Version) {
	n, st, s := t.n, t.st, storeOf(t.n)
	head := memory.NewHead(v)
	if d.Unchanged {
		s.session.Holds(d, head)
		t.settledLocked(d)
		return
	}
	s.unspoolStage(st)
	if path, ok := n.PathLocked(); !ok || path != v.Path {
		t.committedElsewhereLocked(d, v, head)
		return
	}
	s.holdsLocked(s.known.Of(n.KnownAtLocked()), d, head)
	s.tree.CommittedLocked(n, v, head)
	s.fs.notify.birthLocked(n)
	st.base = head
	t.settledLocked(d)
}

// committedElsewhereLocked is committedLocked where another session's commit has taken the
// file's place.
func (t *stagedText) committedElsewhereLocked(d *session.Draft, v *versionlog.Version, head *memory.Head) {
	n, st, s := t.n, t.st, storeOf(t.n)
	before := s.known.Of(n.KnownAtLocked())
	if there := s.tree.CommittedElsewhereLocked(n, v, head); there != nil {
		s.holdsLocked(before, d, head)
	} else {
		s.session.Wrote(v.Path)
		if m := n.LatestLocked(); (m != n || n.HasNameLocked()) && memory.SameText(m.HeadLocked(), head) { // renamed since, by this mount
			updateKnownLocked(m, func(known session.Knowledge) session.Knowledge { return known.Wrote(m.HeadLocked()) })
		}
	}
	st.base, st.overtaken = head, false
	t.settledLocked(d)
	s.fs.notify.contentLocked(n)
}

// erasedLocked is committedLocked where the version that holds the draft was erased before the
// mount has heard of it: the text was in the log, and must then be nowhere. Bytes that were
// written since stay, as the text of a file that another session has removed.
func (t *stagedText) erasedLocked(d *session.Draft, c *versionlog.Commit) {
	s := storeOf(t.n)
	s.unspoolStage(t.st)
	s.tree.ApplyLocked(c)
	s.tree.ErasedLocked(t.n, &c.Versions[0])
	t.settledLocked(d)
}

// settledLocked notes that what the stage was as of a draft is committed.
func (t *stagedText) settledLocked(d *session.Draft) {
	st := t.st
	st.committed = max(st.committed, d.Mark)
	st.first = st.last
	if st.changes == d.Mark {
		st.dirty, st.wrote = false, false
		st.first, st.attempt = time.Time{}, attempt{}
		storeOf(t.n).fs.accountStageLocked(t.n, st)
	}
	if d.Append && st.appendOnly {
		st.appended = st.appended[min(d.Added, len(st.appended)):]
		storeOf(t.n).fs.accountStageLocked(t.n, st)
	}
}

// Lost has whatever else is written to the stage kept, too, until its handles are closed.
func (t *stagedText) Lost(*session.Draft) session.Loss {
	n, st, fs := t.n, t.st, storeOf(t.n).fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	path, _ := n.TargetLocked()
	st.overtaken = true
	fs.notify.contentLocked(n)
	storeOf(n).session.Loses(path, st.base)
	return session.Loss{
		Path: path, Base: st.base, Theirs: n.TheirsLocked(), Yours: slices.Clone(st.data),
		Mark: st.changes, Conflict: st.conflict, IsKept: st.isKeptLocked(),
	}
}

// Kept notes the conflict that has the text.
func (t *stagedText) Kept(l session.Loss) {
	st, s := t.st, storeOf(t.n)
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if l.Change != nil {
		st.base = l.Base
	}
	st.conflict, st.conflictAt = l.Conflict, l.Mark
	if s.tree.FindMemoryLocked(l.Path) == nil && s.tree.FindHiddenLocked(l.Path) == nil {
		s.known.Went(l.Path)
	}
}

// answer is what the request is told whose save has ended with err.
func (t *stagedText) answer(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	n, fs := t.n, storeOf(t.n).fs
	var lost *session.LostError
	told, isTold := err.(syscall.Errno)
	switch {
	case isTold:
		return fuse.Status(told)
	case errors.As(err, &lost):
		return fuse.Status(fs.opts.ConflictErrno)
	case errors.Is(err, session.ErrUncommitted):
		return fuse.EIO
	}
	path := t.path
	if path == "" {
		path = fs.where(n)
	}
	if t.why == unasked {
		fs.log.Warn("appended bytes not committed yet", "store", storeOf(n).slug(), "path", path, "err", err)
		return fuse.EIO
	}
	return storeOf(n).fail("close", path, err)
}

// settleText saves a text of which it is not known whether it is in the log, before its
// name changes.
func settleText(t session.Text) error {
	staged := t.(*stagedText)
	if status := storeOf(staged.n).fs.commitFile(staged.n, staged.st, saved); !status.Ok() {
		return syscall.Errno(status)
	}
	return nil
}

// spoolLocked is the draft of a scratch file, which goes to the spool; nil: nothing does.
func (t *stagedText) spoolLocked() *session.Draft {
	e := toSpoolLocked(t.n, t.st, t.why)
	if e == nil {
		return nil
	}
	return &session.Draft{Data: e.data, Aside: func(context.Context) error {
		if status := storeOf(t.n).fs.spool(e, t.why); !status.Ok() {
			return syscall.Errno(status)
		}
		return nil
	}}
}
