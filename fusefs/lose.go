package fusefs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// DefaultConflictErrno is what a call gets whose write lost a race. Every
// language has a name for it; Node's libuv calls ESTALE "Unknown system error
// -116". And the kernel does not repeat a call for it, as it does for ESTALE.
const DefaultConflictErrno = syscall.EBUSY

// loss is a write that lost a race.
type loss struct {
	path   string
	base   *memory.Head // nil: no memory
	theirs *memory.Head // nil: no memory
	yours  []byte
	back   *session.Change // where it would have taken one back; else nil
	why    string          // where it is neither that nor that somebody else wrote; else ""
	told   bool            // why is only what a line of .mneme/errors has said in full
}

// refuseStaleLocked answers who is about to overwrite what the session has not read.
func (s *store) refuseStaleLocked(n *node, head *memory.Head) fuse.Status {
	path, _ := n.logPath()
	base := n.knownLocked().Head()
	n.learnLocked(session.Knowledge.Refused)
	s.errors.AddConflict(path, s.changed(path, base, head)+"; "+s.redoLocked(path))
	return fuse.Status(s.fs.opts.ConflictErrno)
}

// redoLocked says how to go on after a conflict.
func (s *store) redoLocked(path string) string {
	if n := s.findHidden(path); n != nil {
		if as, ok := n.path(); ok {
			return fmt.Sprintf("this mount has it as %s: read that, or rename it back, and redo your edit", quote.Name(as))
		}
	}
	return redoStale
}

const redoStale = "read it again and redo your edit"

// refuseBlindLocked answers who is about to overwrite what the session never read,
// in a strict mount.
func (s *store) refuseBlindLocked(n *node, head *memory.Head) fuse.Status {
	path, _ := n.path()
	s.errors.AddConflict(path, fmt.Sprintf("%s:%s was never read in this session, and this mount is strict (version %d %s); read it and write again",
		s.slug(), path, head.Seq(), by(head)))
	return fuse.Status(s.fs.opts.ConflictErrno)
}

// changed says, for an agent, what came in between.
func (s *store) changed(path string, base, theirs *memory.Head) string {
	since := "since you read it"
	if base == nil {
		since = "while you made it"
	}
	if theirs == nil {
		return fmt.Sprintf("%s:%s was removed or renamed %s", s.slug(), path, since)
	}
	return fmt.Sprintf("%s:%s changed %s (version %d %s)", s.slug(), path, since, theirs.Seq(), by(theirs))
}

// ofAnother returns the version by which another session has changed a memory since
// base: what this session's own renames have made of it is that session's, too.
func (s *store) ofAnother(theirs, base *memory.Head) *memory.Head {
	if theirs == nil || base == nil || theirs.Op() != versionlog.OpRenamed || theirs.Session() != s.fs.opts.Session {
		return theirs
	}
	for v, err := range s.memory.History(s.fs.ctx, theirs.Path()) {
		if err != nil || v.Seq <= base.Seq() {
			break
		}
		if v.MemoryID == theirs.MemoryID() && v.Session != theirs.Session() {
			return memory.NewHead(&v)
		}
	}
	return theirs
}

// by says who made a version, and when.
func by(v *memory.Head) string {
	who := quote.Name(v.Actor().String())
	if v.Session() != "" {
		who = "session " + quote.Name(v.Session())
	}
	return fmt.Sprintf("by %s, %s ago", who, max(0, time.Since(v.Time())).Round(time.Second))
}

// lose keeps what was written to a stage whose base another session has
// replaced, and answers whoever wrote it. Until the handles are closed, what
// else they write is kept, too. back is the change that it would have taken back,
// nil where there is none. The caller has the node's turn and holds no lock.
func (fs *fileSystem) lose(n *node, st *stage, theirs *memory.Head, back *session.Change) fuse.Status {
	fs.mu.Lock()
	status := fuse.Status(fs.opts.ConflictErrno)
	path, there := n.targetLocked()
	l := loss{path: path, base: st.base, theirs: theirs, yours: slices.Clone(st.data), back: back}
	changes, id, done := st.changes, st.conflict, st.conflict != 0 && st.conflictAt == st.changes
	refused := func(known session.Knowledge) session.Knowledge {
		if !known.IsKnown() {
			known = session.Of(st.base) // so that the same write, repeated, fails again
		}
		return known.Refused()
	}
	if there {
		n.learnLocked(refused)
	} else {
		n.store.noteLocked(path, refused(n.knownLocked()))
	}
	st.overtaken = true
	fs.notify.contentLocked(n)
	fs.mu.Unlock()
	if done {
		return status
	}
	id = n.store.keep(l, id)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	st.conflict, st.conflictAt = id, changes
	return status
}

// loseUnless is lose, but where nobody has asked for the commit.
func (fs *fileSystem) loseUnless(unasked bool, n *node, st *stage, theirs *memory.Head) fuse.Status {
	if unasked {
		return fuse.EIO
	}
	return fs.lose(n, st, theirs, nil)
}

// noConflict stands for a conflict that could not be kept.
const noConflict = -1

// keep keeps a loss, durably, and tells of it in .mneme/errors. An id that is
// not 0 is that of a conflict which l replaces.
func (s *store) keep(l loss, id int) int {
	s.fs.mu.RLock()
	redo := s.redoLocked(l.path)
	if id > 0 && !s.isOpenLocked(id) {
		id = 0 // settled: what is lost now is another conflict
	}
	s.fs.mu.RUnlock()
	text := s.changed(l.path, l.base, s.ofAnother(l.theirs, l.base))
	switch {
	case l.back != nil:
		text = s.takingBack(l.path, "saved", l.back)
		if redo == redoStale {
			redo = redoTaken
		}
	case l.why != "":
		text = fmt.Sprintf("%s:%s was not saved: %s", s.slug(), l.path, l.why)
		if l.told {
			redo = "a line before says what to do"
		}
	}
	if s.kept == nil {
		s.errors.AddConflict(l.path, text+"; "+redo)
		return noConflict
	}
	var err error
	if id > 0 {
		if err = s.kept.Rewrite(id, l.yours); err == nil {
			return id
		}
	}
	if err == nil || errors.Is(err, conflict.ErrNotFound) {
		id, err = s.keepConflict(s.about(l, text), conflict.Texts{Base: s.text(l.base), Theirs: s.text(l.theirs), Yours: l.yours})
	}
	if err != nil {
		s.fs.log.Error("conflict not kept", "store", s.slug(), "path", l.path, "err", err)
		s.errors.AddConflict(l.path, fmt.Sprintf("%s; your text could not be kept: %v", text, err))
		return noConflict
	}
	s.errors.AddConflict(l.path, fmt.Sprintf("%s; %s; your text is kept in .mneme/conflicts/%d/yours", text, redo, id))
	s.fs.log.Info("conflict", "store", s.slug(), "path", l.path, "conflict", id)
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	s.openedLocked(l.path, id)
	return id
}

// keepConflict keeps a conflict. What its session has kept for longest makes room for
// it, which .mneme/errors says in one line.
func (s *store) keepConflict(about conflict.About, texts conflict.Texts) (int, error) {
	about.Size = int64(len(texts.Yours))
	removed, err := s.kept.MakeRoom(about)
	for _, old := range removed {
		s.errors.Add(".mneme/conflicts", fmt.Sprintf("conflict %d of %s, of session %s, was removed to make room for a newer one: at most %d of a session are kept, or %d MiB",
			old.ID, quote.Name(s.slug()+":"+old.Path), quote.Name(old.Session), conflict.MaxOfSession, conflict.MaxBytesOfSession>>20))
		s.fs.log.Warn("conflict removed to make room", "store", s.slug(), "path", old.Path, "session", old.Session, "conflict", old.ID)
	}
	if err != nil {
		return 0, err
	}
	return s.kept.Keep(about, texts)
}

func (s *store) about(l loss, why string) conflict.About {
	return conflict.About{
		Store: s.slug(), Path: l.path, Session: s.fs.opts.Session, Time: time.Now().UTC().Truncate(time.Microsecond), Why: quote.Place(why, l.path),
		Base: conflict.SideOf(l.base.Version()), Theirs: conflict.SideOf(l.theirs.Version()),
	}
}

// text is the content of a version for a conflict, nil when there is none.
func (s *store) text(v *memory.Head) []byte {
	if v == nil || !v.Live() {
		return nil
	}
	data, err := s.memory.ContentOf(s.fs.ctx, v)
	if err != nil {
		s.fs.log.Error("content for a conflict", "store", s.slug(), "path", v.Path(), "err", err)
		return nil
	}
	return data
}

// conflictHead returns what the log has at path, of a commit that lost a race;
// false for any other error.
func conflictHead(err error, path string) (*versionlog.Version, bool) {
	var lost *versionlog.ConflictError
	if !errors.As(err, &lost) {
		return nil, false
	}
	for _, c := range lost.Conflicts {
		if c.Path == path {
			return c.Head, true
		}
	}
	return nil, false
}
