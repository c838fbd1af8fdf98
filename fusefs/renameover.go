package fusefs

import (
	"errors"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// renameText is a file that becomes the next version of a memory, whose path it is
// renamed to: a text of the session, as stagedText is. The rename has claimed the path.
type renameText struct {
	move    *move
	turn    session.Turn
	path    string
	spelled string // path as the program has it
	data    []byte
	changes uint64            // of the file's stage
	key     string            // of its first commit; "": a fresh one
	used    bool              // key was proposed before
	also    []memory.Change   // in the same commit
	theirs  *memory.Head      // what is at path; nil: no memory
	base    *memory.Head      // the version that it is meant to replace
	known   session.Knowledge // of path
	judge   []session.Change
	stale   bool // the session does not know theirs
}

// replace commits a file over a memory, if what is there is what the session knows.
func (fs *fileSystem) replace(t *renameText) error {
	if status := fs.beginReplace(t); !status.Ok() {
		return syscall.Errno(status)
	}
	err := t.move.s.session.Save(fs.ctx, t, &session.SaveOptions{Claimed: true})
	var lost *session.LostError
	if errors.As(err, &lost) {
		return fs.opts.ConflictErrno
	}
	return err
}

// beginReplace finds out which file the rename replaces, and whether it may.
func (fs *fileSystem) beginReplace(t *renameText) fuse.Status {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if target := t.move.Target; target != nil {
		t.move.Target = target.LatestLocked() // what moves is still what t was drawn up for, whatever has its old name
	}
	t.base = t.theirs
	holder := t.move.holderLocked()
	if holder == nil || holder.HeadLocked() == nil {
		t.judge = t.move.s.known.Of(t.path).Absent().ToJudge()
		return fuse.OK
	}
	t.known = knownLocked(holder)
	t.base = t.known.Expected(t.theirs)
	if t.known.Stale(t.theirs) {
		t.stale = t.theirs.Digest() != cas.Sum(t.data)
	} else {
		t.judge = t.known.ToJudge()
	}
	if t.known.IsKnown() {
		return fuse.OK
	}
	return storeOf(holder).answerLocked(storeOf(holder).session.Admit(holder.KnownAtLocked(), holder.HeadLocked()))
}

// holderLocked is the file that stands for the memory at the path that a file moves
// to: the target, or what this mount hides there; nil when there is neither.
func (m *move) holderLocked() *tree.Entry {
	if m.Target.IsMemoryLocked() {
		return m.Target
	}
	return m.To.HiddenAtLocked(m.New)
}

func (t *renameText) Turn() *session.Turn           { return &t.turn }
func (t *renameText) LostReply() *session.LostReply { return nil } // only the kernel repeats a rename
func (t *renameText) Path() string                  { return t.path }

// Draft returns the file, of which only the first draft has the key of its entry in the spool.
func (t *renameText) Draft(string) (*session.Draft, error) {
	d := &session.Draft{
		Path: t.path, Spelling: t.spelled, Data: t.data, Base: t.base, Theirs: t.theirs, Lost: t.stale,
		Judge: t.judge, Key: t.key, Used: t.used, Also: t.also, Mark: t.changes,
	}
	t.key, t.used = "", false
	return d, nil
}

// Beside remembers the mode of the file.
func (t *renameText) Beside(_ *session.Draft, commit func() error) error {
	m := t.move
	return m.s.keepingMode(m.Entry, t.path, t.theirs, func() error { return m.s.tried(commit) })
}

// Met notes what the log has at the path; the tree shows it already.
func (t *renameText) Met(_ *session.Draft, theirs *versionlog.Version) {
	t.theirs = memory.NewHead(theirs)
}

// Rebase makes the file one of theirs.
func (t *renameText) Rebase(_ *session.Draft, theirs *memory.Head, content []byte) bool {
	t.data, t.base, t.stale = content, theirs, false
	return true
}

// Lost returns what would have replaced theirs. When the kernel tries a second time, it is
// kept already.
func (t *renameText) Lost(*session.Draft) session.Loss {
	s := t.move.s
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	s.session.Loses(t.path, t.base)
	return session.Loss{Path: t.path, Base: t.base, Yours: t.data, Once: true}
}

// Kept has nothing to note: the file stays as it is.
func (t *renameText) Kept(session.Loss) {}

// Committed brings the file into the tree, in the target's place.
func (t *renameText) Committed(d *session.Draft, v *versionlog.Version, c *versionlog.Commit) {
	s := t.move.s
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if c != nil {
		s.countLocked(c)
	}
	if v.Redacted() {
		t.erasedLocked(c, v)
		return
	}
	t.replacedLocked(d, v, c == nil)
	if c == nil {
		return
	}
	s.session.Freed(c)
	s.tree.FreedLocked(c)
	for _, also := range t.also {
		s.known.MovedAway(also.Path, v, c.Seq)
	}
}

// replacedLocked brings a file over target into the tree: v, which was there already where
// another session has written the very same bytes.
func (t *renameText) replacedLocked(d *session.Draft, v *versionlog.Version, there bool) {
	m, s := t.move, t.move.s
	s.session.Wrote(t.path)
	newer := d.Newer
	if other := m.To.ChildLocked(m.New); other.IsMemorySinceLocked(v.Seq + 1) {
		other := other.VersionLocked()
		newer = &other
	}
	// The follower may have met that another session has removed them since.
	gone := there && (s.tree.FreedSinceLocked(t.path) > v.Seq ||
		s.tree.IsLoadedLocked() && v.Seq <= s.tree.AppliedLocked() && s.tree.FindMemoryLocked(t.path) == nil && s.tree.FindHiddenLocked(t.path) == nil)
	s.tree.UnhideLocked(m.Entry)
	from, itself, own := m.Entry.KnownAtLocked(), m.Entry.KnownByItselfLocked(), knownLocked(m.Entry)
	unread := isUnreadLocked(m.Entry) // another session's, that moves along
	s.unspoolLocked(s.tree.ReplacedLocked(m.Move, v))
	if itself && from != t.path {
		s.known.Set(from, session.Knowledge{})
	}
	switch {
	case d.Merged():
		s.known.Set(t.path, t.knownMerged(d, m.Entry.HeadLocked()))
	case unread && t.also != nil:
		s.known.Set(t.path, own)
	default:
		s.known.Set(t.path, t.known.Wrote(m.Entry.HeadLocked()))
	}
	s.unspoolLocked(m.Entry)
	if st := stageOf(m.Entry); st != nil && !st.overtaken {
		st.replacedLocked(m.Entry, t.changes)
	}
	if d.Merged() { // the kernel has other bytes of it
		s.tree.SupersedeLocked(m.Entry, m.To, m.New, *v)
	}
	switch {
	case newer != nil:
		s.tree.InstallLocked(*newer)
	case gone:
		s.tree.LeftLocked(m.Entry, time.Now())
	}
}

// erasedLocked is replacedLocked where v was erased before the mount has heard of it: the file
// must then be nowhere.
func (t *renameText) erasedLocked(c *versionlog.Commit, v *versionlog.Version) {
	m, s := t.move, t.move.s
	s.unspoolLocked(m.Entry)
	s.bringErasedLocked(c, m.To, m.New)
	s.tree.ErasedLocked(m.Entry, v)
	if st := stageOf(m.Entry); st != nil && !st.overtaken {
		st.replacedLocked(m.Entry, t.changes)
	}
}

// knownMerged is what the session knows of a file that was merged: a session that merges does not
// know the result.
func (t *renameText) knownMerged(d *session.Draft, head *memory.Head) session.Knowledge {
	known := t.known.Added(head, d.Base).NotRefused()
	if d.MergedBack() {
		known = known.Refused()
	}
	return known
}

// replacedLocked notes that what the stage of n was as of changes has become the head of n,
// which was renamed over it.
func (st *stage) replacedLocked(n *tree.Entry, changes uint64) {
	st.base = n.HeadLocked()
	st.appendOnly, st.appended = false, nil
	st.committed = max(st.committed, changes)
	if st.changes == changes {
		st.dirty, st.wrote = false, false
		st.data, st.loaded = nil, false
	}
	if st.writers == 0 && !st.dirty {
		setStageLocked(n, nil)
	}
	storeOf(n).fs.accountStageLocked(n, st)
}
