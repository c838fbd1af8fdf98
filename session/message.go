package session

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"mneme/history"
	"mneme/internal/quote"
	"mneme/memory"
)

// The texts that tell an agent why it was refused. Each has one line: what happened, and,
// behind a semicolon, what to do.

const (
	redoStale = "read it again and redo your edit"
	redoTaken = "read it again, and do the same again if that is meant"
)

// conflictsPlace is where the journal has errors about conflicts in general.
const conflictsPlace = ".mneme/conflicts"

// refusal is the text about a write that was refused before anything was written.
func (s *Session) refusal(e *LostError, shown string) string {
	switch e.Reason {
	case NeverRead:
		return fmt.Sprintf("%s was never read in this session, and this %s is strict (version %d %s); read it and write again",
			s.name(cmp.Or(shown, e.Path)), s.face(), e.Theirs.Seq(), s.by(e.Theirs))
	case TakesBack:
		return s.takingBack(e.Path, "removed", e.Change) + "; " + redoTaken
	case MovedUnread:
		at := quote.Name(cmp.Or(shown, e.At))
		return fmt.Sprintf("%s was not saved: %s; read %s and redo your edit", s.name(e.Path), s.unreadBecause(at, e.Theirs), at)
	}
	return s.changedSince(e.Path, e.Base, e.Theirs) + "; " + s.redo(shown)
}

// describe says what has become of a loss, and what to do about it.
func (s *Session) describe(ctx context.Context, l *Loss) (what, redo string) {
	as := ""
	if s.opts.Alias != nil {
		as = s.opts.Alias(l.Path)
	}
	redo = s.redo(as)
	switch {
	case l.Change != nil:
		if redo == redoStale {
			redo = redoTaken
		}
		return s.takingBack(l.Path, "saved", l.Change), redo
	case l.Why != "":
		if l.Noted {
			redo = "a line before says what to do"
		}
		if l.Held {
			redo = "if it is meant, it has to be confirmed"
		}
		return fmt.Sprintf("%s was not saved: %s", s.name(l.Path), l.Why), redo
	}
	return s.changedSince(l.Path, l.Base, s.ofAnother(ctx, l.Theirs, l.Base)), redo
}

// redo says how to continue after a conflict. shown is the other name that the face has for the
// memory; "": it has none.
func (s *Session) redo(shown string) string {
	if shown == "" {
		return redoStale
	}
	return fmt.Sprintf("this %s has it as %s: read that, or rename it back, and redo your edit", s.face(), quote.Name(shown))
}

// name is what those that use the session call the memory at a path.
func (s *Session) name(path string) string {
	if s.opts.Name != nil {
		return s.opts.Name(path)
	}
	return s.slug() + ":" + path
}

func (s *Session) face() string { return cmp.Or(s.opts.Face, "session") }

// Changed says, for those that use the session, by whom and when a memory was changed since
// base. Nil is that there is, or was, no memory.
func (s *Session) Changed(path string, base, theirs *memory.Head) string {
	return s.changedSince(path, base, theirs)
}

// changedSince says what came in between.
func (s *Session) changedSince(path string, base, theirs *memory.Head) string {
	since := "since you read it"
	if base == nil {
		since = "while you made it"
	}
	if theirs == nil {
		return fmt.Sprintf("%s was removed or renamed %s", s.name(path), since)
	}
	return fmt.Sprintf("%s changed %s (version %d %s)", s.name(path), since, theirs.Seq(), s.by(theirs))
}

// takingBack says that something was not done, since that would take a change back.
func (s *Session) takingBack(path, done string, change *Change) string {
	what := fmt.Sprintf("take back what version %d changed", change.To.Seq())
	if !change.Known {
		what = fmt.Sprintf("drop the end of version %d", change.To.Seq())
	}
	return fmt.Sprintf("%s was not %s: that would %s (%s)", s.name(path), done, what, s.by(change.To))
}

// unreadBecause says why nothing is put where a memory was that has moved.
func (s *Session) unreadBecause(at string, now *memory.Head) string {
	return fmt.Sprintf("what was there was moved to %s by this session, which has not read what another one had changed in it (now version %d %s)",
		at, now.Seq(), s.by(now))
}

// by names the author of a version, and says how long ago it was made.
func (s *Session) by(v *memory.Head) string {
	author := quote.Name(v.Actor().String())
	if v.Session() != "" {
		author = "session " + quote.Name(v.Session())
	}
	return fmt.Sprintf("by %s, %s ago", author, max(0, s.now().Sub(v.Time())).Round(time.Second))
}

// ofAnother returns the newest version by which another session has changed a memory since base.
// Later versions of this session are not it: another program of the session has saved on top, or
// renamed the memory.
func (s *Session) ofAnother(ctx context.Context, theirs, base *memory.Head) *memory.Head {
	if theirs == nil || base == nil || theirs.Session() != s.opts.ID {
		return theirs
	}
	for v, err := range history.Versions(ctx, s.store, theirs.Path()) {
		if err != nil || v.Seq <= base.Seq() {
			break
		}
		if theirs.OfMemory(&v) && v.Session != theirs.Session() {
			return memory.NewHead(&v)
		}
	}
	return theirs
}
