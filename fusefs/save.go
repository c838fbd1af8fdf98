package fusefs

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
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
	unasked                  // it has grown, and nobody has closed it
)

// alone reports whether there is nothing to commit when somebody has opened the
// file to write it again: the close of that will come.
func (o occasion) alone() bool { return o == released || o == lingered }

// commitFile makes what was written to a file a version, if it changed
// anything. Scratch files go to the spool instead, temporary ones unless they
// have lingered.
func (fs *fileSystem) commitFile(n *node, st *stage, why occasion) fuse.Status {
	return fs.commitUpTo(n, st, why, nil)
}

// commitUpTo is commitFile for what the stage was at a mark, if that can be told
// from what was written since; nil is the newest.
func (fs *fileSystem) commitUpTo(n *node, st *stage, why occasion, upTo *mark) fuse.Status {
	defer n.store.dropSettled()
	t := &stagedText{n: n, st: st, why: why, upTo: upTo}
	defer fs.giveBack(&t.copied)
	return t.answer(n.store.session.Save(fs.ctx, t, &session.SaveOptions{Unasked: why == unasked}))
}

// stagedText is a stage as the session saves it: see session.Save for what happens to a
// write, and session.Text for when each of these methods is called.
type stagedText struct {
	n      *node
	st     *stage
	why    occasion
	upTo   *mark
	path   string // of the newest draft that was to be committed
	copied int64  // what the budget has of the draft
}

// Turn is shared by the stages of a file.
func (t *stagedText) Turn() *session.Turn { return &t.n.own().turn }

// LostReply lies with the stage.
func (t *stagedText) LostReply() *session.LostReply { return &t.st.lost }

// Path is where the file is by now, or what has taken its place.
func (t *stagedText) Path() string {
	fs := t.n.store.fs
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	path, _ := t.n.targetLocked()
	return path
}

// Draft takes from the stage what is to be committed, or says why nothing is.
func (t *stagedText) Draft(decided string) (*session.Draft, error) {
	fs := t.n.store.fs
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
	m, fs := n.nowLocked(), n.store.fs
	if !st.dirty || m.removed || t.why.alone() && st.writers > 1 {
		return nil
	}
	if n.local {
		kind := fs.classOf(n)
		if kind == editorScratch || kind == temporary && t.why != lingered && t.why != ending {
			return t.spoolLocked()
		}
	}
	if t.upTo != nil && t.upTo.changes <= st.committed { // by another close
		return nil
	}
	later := fs.laterLocked(st, t.upTo)
	path, there := n.targetLocked()
	d := &session.Draft{
		Path: path, Data: slices.Clone(st.data[:len(st.data)-later]), Base: st.base, Theirs: n.theirsLocked(),
		Append: st.tails, Added: len(st.tail) - later, Mark: st.changes,
	}
	if later > 0 {
		d.Mark = t.upTo.changes
	}
	d.Key = st.spooledKeyLocked(d.Mark)
	moved := (m != n || !there) && path != decided
	if path == "" || st.overtaken || !st.tails && (n.stage() != st || !there) || moved && !memory.SameText(st.base, d.Theirs) {
		d.Lost = true // another session took its name away, or changed it
		return d
	}
	if moved {
		d.Base = d.Theirs // only its path is another
	}
	t.settleBaseLocked(d)
	return d
}

// settleBaseLocked says what a draft replaces, and by what it is judged.
func (t *stagedText) settleBaseLocked(d *session.Draft) {
	n, st := t.n, t.st
	if n.hasLocalName() {
		d.Base = nil
		if hidden := n.parent.hidden[n.name]; hidden != nil {
			d.Base = hidden.knownLocked().Expected(hidden.head)
		}
	}
	if n.local {
		d.Spelling = n.spellingAtLocked(d.Path)
	}
	if d.Base != nil && !n.local && int64(len(d.Data)) == d.Base.Size() {
		d.Digest = cas.Sum(d.Data)
		d.Unchanged = d.Digest == d.Base.Digest()
	}
	if !st.tails && !d.Unchanged && !st.fresh {
		d.Judge = n.knownLocked().ToJudge()
	}
}

// Beside remembers the mode of a file that becomes a memory.
func (t *stagedText) Beside(d *session.Draft, commit func() error) error {
	t.path = d.Path
	s := t.n.store
	return s.keepingMode(t.n, d.Path, d.Base, func() error {
		if d.Unchanged {
			return commit()
		}
		return s.tried(commit)
	})
}

// Met shows what has the file's place in the log.
func (t *stagedText) Met(_ *session.Draft, theirs *versionlog.Version) {
	fs := t.n.store.fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t.n.yieldLocked(theirs)
}

// Rebase gives the stage the base theirs.
func (t *stagedText) Rebase(d *session.Draft, theirs *memory.Head, content []byte) bool {
	n, st, fs := t.n, t.st, t.n.store.fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	path, _ := n.targetLocked()
	switch {
	case n.nowLocked().removed || st.err != 0:
		return false
	case path != d.Path:
		return d.Append // which the next draft puts at the end of what is there
	case d.Append && st.tails:
		content = slices.Concat(content, st.tail)
	case d.Append || st.changes != d.Mark:
		return false
	}
	if was := n.stage(); was == nil || was.overtaken || was == st {
		n.setStageLocked(st)
		fs.reckonLocked(n, was)
	}
	st.base, st.data, st.loaded, st.overtaken = theirs, content, true, false
	fs.reckonLocked(n, st)
	fs.handing.rebasedLocked(st)
	fs.notify.contentLocked(n)
	return true
}

// Committed brings the version that holds the draft into the tree.
func (t *stagedText) Committed(d *session.Draft, v *versionlog.Version, c *versionlog.Commit) {
	s := t.n.store
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if c != nil {
		s.commits.Add(1)
	}
	t.committedLocked(d, v)
}

// committedLocked is Committed also for a commit that the follower has met.
func (t *stagedText) committedLocked(d *session.Draft, v *versionlog.Version) {
	n, st, s := t.n, t.st, t.n.store
	head := memory.NewHead(v)
	if d.Unchanged {
		s.session.Holds(d, head)
		t.settledLocked(d)
		return
	}
	s.unspoolStage(st)
	if path, ok := n.path(); !ok || path != v.Path {
		t.committedElsewhereLocked(d, v, head)
		return
	}
	s.holdsLocked(s.known.Of(n.knownAtLocked()), d, head)
	if !n.isMemorySince(v.Seq) {
		n.setHeadLocked(head, v.Spelling)
		s.fs.notify.birthLocked(n)
	}
	if hidden := n.parent.hidden[n.name]; hidden != nil && n.local {
		s.unhideLocked(hidden)
	}
	n.parent.settleLocked()
	n.setLocal(false)
	st.base = head
	t.settledLocked(d)
}

// committedElsewhereLocked is committedLocked where another session's commit has taken the
// file's place.
func (t *stagedText) committedElsewhereLocked(d *session.Draft, v *versionlog.Version, head *memory.Head) {
	n, st, s := t.n, t.st, t.n.store
	before := s.known.Of(n.knownAtLocked())
	s.showLocked(*v)
	if m := s.find(v.Path); m != nil && memory.SameVersion(m.head, head) {
		s.holdsLocked(before, d, head)
		n.leadLocked(m)
	} else {
		s.session.Wrote(v.Path)
		if m := n.nowLocked(); m != n && memory.SameText(m.head, head) { // renamed since, by this mount
			m.learnLocked(func(known session.Knowledge) session.Knowledge { return known.Wrote(m.head) })
		}
	}
	n.setHeadLocked(head, v.Spelling)
	st.base, st.overtaken = head, false
	t.settledLocked(d)
	s.fs.notify.contentLocked(n)
}

// settledLocked notes that what the stage was as of a draft is committed.
func (t *stagedText) settledLocked(d *session.Draft) {
	st := t.st
	st.committed = max(st.committed, d.Mark)
	st.first = st.last
	if st.changes == d.Mark {
		st.dirty, st.wrote = false, false
		st.first = time.Time{}
		t.n.tallyLocked()
	}
	if d.Append && st.tails {
		st.tail = st.tail[min(d.Added, len(st.tail)):]
		t.n.store.fs.reckonLocked(t.n, st)
	}
}

// Lost has whatever else is written to the stage kept, too, until its handles are closed.
func (t *stagedText) Lost(*session.Draft) session.Loss {
	n, st, fs := t.n, t.st, t.n.store.fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	path, _ := n.targetLocked()
	st.overtaken = true
	fs.notify.contentLocked(n)
	return session.Loss{
		Path: path, Base: st.base, Theirs: n.theirsLocked(), Yours: slices.Clone(st.data),
		Mark: st.changes, Conflict: st.conflict, IsKept: st.isKeptLocked(),
	}
}

// Kept notes the conflict that has the text.
func (t *stagedText) Kept(l session.Loss) {
	st, s := t.st, t.n.store
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if l.Change != nil {
		st.base = l.Base
	}
	st.conflict, st.conflictAt = l.Conflict, l.Mark
	if s.madeLocked(l.Path) == nil && s.findHidden(l.Path) == nil {
		s.known.Left(l.Path)
	}
}

// answer is what the request is told whose save has ended with err. A memory that is too
// big, or whose path cannot be one, is final. Anything else may go away, so the stage
// stays for the next fsync or close.
func (t *stagedText) answer(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	n, st, fs := t.n, t.st, t.n.store.fs
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
		fs.log.Warn("appended bytes not committed yet", "store", n.store.slug(), "path", path, "err", err)
		return fuse.EIO
	}
	status := n.store.fail("close", path, err)
	if errors.Is(err, versionlog.ErrOverlap) || errors.Is(err, memory.ErrTooBig) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.poisonLocked(n, st, syscall.Errno(status))
	}
	return status
}

// settleText saves a text of which it is not known whether it is in the log, before its
// name changes.
func settleText(t session.Text) error {
	staged := t.(*stagedText)
	if status := staged.n.store.fs.commitFile(staged.n, staged.st, saved); !status.Ok() {
		return syscall.Errno(status)
	}
	return nil
}

// spoolLocked is the draft of a scratch file, which goes to the spool; nil: nothing does.
func (t *stagedText) spoolLocked() *session.Draft {
	e := t.n.toSpoolLocked(t.st, t.why)
	if e == nil {
		return nil
	}
	return &session.Draft{Data: e.data, Aside: func(context.Context) error {
		if status := t.n.store.fs.spool(e, t.why); !status.Ok() {
			return syscall.Errno(status)
		}
		return nil
	}}
}
