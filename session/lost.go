package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session/conflict"
)

// Admit says whether the session may replace head, before anything is written: nil or a
// *LostError. The session may replace a version that it has never read unless it is strict; Blind
// counts that. The face may call Admit with its lock held; it calls Report if it then refuses.
func (s *Session) Admit(path string, head *memory.Head) *LostError {
	k := s.known.Of(path)
	switch {
	case head == nil:
		return nil
	case k.Stale(head):
		return &LostError{Store: s.slug(), Path: path, Reason: Changed, Base: k.Head(), Theirs: head}
	case k.IsKnown():
		return nil
	case s.opts.Strict:
		return &LostError{Store: s.slug(), Path: path, Reason: NeverRead, Theirs: head}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind++
	return nil
}

// Blind returns how often the session was let replace what it had never read.
func (s *Session) Blind() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blind
}

// AdmitRemoval is Admit for the removal of head. It is refused, too, where head is another
// session's change which this one has only read, and after any write that was refused, until the
// session has read the memory: the program that was refused may continue by removing the memory
// that it could not replace.
func (s *Session) AdmitRemoval(path string, head *memory.Head) *LostError {
	k := s.known.Of(path)
	e := &LostError{Store: s.slug(), Path: path, Reason: Changed, Base: k.Head(), Theirs: head}
	changes := k.Changes()
	switch {
	case k.Stale(head):
	case k.OnlyRead(), k.WasRefused() && len(changes) > 0:
		e.Reason, e.Base, e.Change = TakesBack, nil, &changes[len(changes)-1]
	case !k.WasRefused():
		return nil
	case !k.IsKnown():
		e.Reason = NeverRead
	}
	return e
}

// AdmitNew is Admit for a path at which there is no memory: it is refused where this
// session has moved away what it has not read. head returns the memory at a path; nil:
// none.
func (s *Session) AdmitNew(path string, head func(path string) *memory.Head) *LostError {
	at, now := s.known.MovedUnread(path, head)
	if at == "" {
		return nil
	}
	return &LostError{Store: s.slug(), Path: path, Reason: MovedUnread, Base: s.known.Of(at).Head(), Theirs: now, At: at}
}

// AdmitMove is AdmitNew for each path at which the rename of a memory or a directory would put one.
// By itself it is replaced.
func (s *Session) AdmitMove(from, to string, head func(path string) *memory.Head) *LostError {
	there := Claim{Path: to, Below: true}
	for _, path := range slices.Sorted(s.known.AllMoved()) {
		source := from + strings.TrimPrefix(path, to)
		if !there.Covers(path) || head(source) == nil {
			continue
		}
		if e := s.AdmitNew(path, head); e != nil && e.At != source {
			return e
		}
	}
	return nil
}

// Report notes a refusal of Admit, AdmitRemoval or AdmitNew: the journal has it, and what
// is done at the path next is refused again until it is read. shown is the name under
// which the face shows the path (of MovedUnread, At), "" if that is the path. The face may
// call it with its lock held.
func (s *Session) Report(err *LostError, shown string) {
	if err.Reason != MovedUnread {
		s.known.Update(err.Path, Knowledge.Refused)
	}
	err.text = s.refusal(err, shown)
	place := err.Path
	if err.Reason == NeverRead { // it is about what is shown
		place = cmp.Or(shown, place)
	}
	s.journal.AddConflict(place, err.text)
}

// KeepRefused keeps the bytes of a write that was refused before it began, by a request
// that may be repeated. shown is as for Report, which the face calls first.
func (s *Session) KeepRefused(ctx context.Context, e *LostError, shown string, yours []byte) {
	l := s.refusedLoss(e, shown, yours)
	l.Once = true
	e.Conflict, e.text = s.keep(ctx, &l)
}

// refuse refuses a write of bytes that exist nowhere else, which are kept.
func (s *Session) refuse(ctx context.Context, e *LostError, yours []byte) *LostError {
	l := s.refusedLoss(e, "", yours)
	e.Conflict, e.text = s.keep(ctx, &l)
	return e
}

// keepIfHeld returns the error of a write of bytes in the place of a memory, which ended with
// err. If the store's policy holds the bytes back, they are kept, unless opts say where they are
// already, and the error is a *HeldError. Every write of bytes that has failed comes by here.
func (s *Session) keepIfHeld(ctx context.Context, err error, path string, yours []byte, base func() (*memory.Head, error), opts *WriteOptions) error {
	if errkind.Of(err) != errkind.Policy {
		return err
	}
	id := opts.keptIn()
	if id == 0 {
		head, headErr := base()
		if headErr != nil {
			return err
		}
		id = s.Keep(ctx, Loss{Path: path, Base: head, Theirs: head, Yours: yours, Why: err.Error(), Held: true, Once: true})
	}
	return &HeldError{Store: s.slug(), Conflict: id, Err: err}
}

func (s *Session) refusedLoss(e *LostError, shown string, yours []byte) Loss {
	l := Loss{Path: e.Path, Base: e.Base, Theirs: e.Theirs, Yours: yours}
	switch e.Reason {
	case NeverRead:
		l.Why = fmt.Sprintf("it was never read in this session, and this %s is strict (version %d %s)", s.face(), e.Theirs.Seq(), s.by(e.Theirs))
	case MovedUnread:
		l.Why = s.unreadBecause(quote.Name(cmp.Or(shown, e.At)), e.Theirs)
	}
	return l
}

// lostError keeps a loss, unless it is kept already, and says so.
func (s *Session) lostError(ctx context.Context, l *Loss) *LostError {
	e := &LostError{Store: s.slug(), Path: l.Path, Reason: Changed, Base: l.Base, Theirs: l.Theirs, Change: l.Change}
	switch {
	case l.Change != nil:
		e.Reason = TakesBack
	case l.Theirs == nil:
		e.Reason = Gone
	}
	e.Conflict, e.text = s.keep(ctx, l)
	l.Conflict = e.Conflict
	return e
}

// Keep keeps a text that will not be committed, durably, and notes it in the journal. It returns
// the conflict; NotKept if it could not be kept.
func (s *Session) Keep(ctx context.Context, l Loss) (id int) {
	id, _ = s.keep(ctx, &l)
	return id
}

// keep keeps a loss, unless it is kept already, and returns the conflict, with the text
// that tells of it.
func (s *Session) keep(ctx context.Context, l *Loss) (id int, text string) {
	what, redo := s.describe(ctx, l)
	switch last := s.newestLoss(); {
	case l.IsKept:
		return l.Conflict, s.keptText(what, redo, l.Conflict)
	case l.Once && s.isUnsettled(last.Conflict) && last.Path == l.Path && memory.SameText(last.Theirs, l.Theirs) && bytes.Equal(last.Yours, l.Yours):
		return last.Conflict, s.keptText(what, redo, last.Conflict)
	case l.Conflict > 0 && s.isUnsettled(l.Conflict): // else it was settled: what is lost now is another conflict
		removed, err := s.opts.Conflicts.Rewrite(l.Conflict, l.Yours, s.isSecret(ctx, l.Path, l.Yours))
		s.noteRemoved(removed)
		if err == nil {
			return l.Conflict, s.keptText(what, redo, l.Conflict)
		}
		if !errors.Is(err, conflict.ErrNotFound) {
			return s.notKept(l, what, err)
		}
	}
	if l.Once {
		defer func() { s.setNewestLoss(l, id) }()
	}
	if s.opts.Conflicts == nil {
		text = what + "; " + redo
		s.journal.AddConflict(l.Path, text)
		return NotKept, text
	}
	id, err := s.keepConflict(ctx, s.about(l, what), conflict.Texts{
		Base: s.content(ctx, l.Base, "conflict"), Theirs: s.content(ctx, l.Theirs, "conflict"), Yours: l.Yours,
	})
	if err != nil {
		return s.notKept(l, what, err)
	}
	text = s.keptText(what, redo, id)
	s.journal.AddConflict(l.Path, text)
	s.opts.Logger.Info("conflict", "store", s.slug(), "path", l.Path, "conflict", id)
	s.opened(l.Path, id)
	return id, text
}

func (s *Session) notKept(l *Loss, what string, err error) (id int, text string) {
	s.opts.Logger.Error("conflict not kept", "store", s.slug(), "path", l.Path, "err", err)
	text = fmt.Sprintf("%s; your text could not be kept: %v", what, err)
	s.journal.AddConflict(l.Path, text)
	return NotKept, text
}

func (s *Session) newestLoss() Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastLoss
}

func (s *Session) setNewestLoss(l *Loss, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLoss = *l
	s.lastLoss.Conflict = id
}

func (s *Session) keptText(what, redo string, id int) string {
	if id <= 0 {
		return what + "; " + redo
	}
	return fmt.Sprintf("%s; %s; your text is kept in %s", what, redo, s.place(id))
}

// place says where a reader finds what is kept of a conflict.
func (s *Session) place(id int) string {
	if s.opts.Place != nil {
		return s.opts.Place(id)
	}
	return "conflict " + strconv.Itoa(id)
}

// isSecret reports whether the store refuses a text for a path, for credentials in them, or may:
// it does not say.
func (s *Session) isSecret(ctx context.Context, path string, text []byte) bool {
	return s.store.CheckSecrets(ctx, path, text) != nil
}

// keepConflict keeps a conflict, for which the oldest of its session make room.
func (s *Session) keepConflict(ctx context.Context, about conflict.About, texts conflict.Texts) (int, error) {
	about.Secret = s.isSecret(ctx, about.Path, texts.Yours)
	id, removed, err := s.opts.Conflicts.KeepNewest(about, texts)
	s.noteRemoved(removed)
	return id, err
}

// noteRemoved notes in the journal which conflicts have made room for a newer one.
func (s *Session) noteRemoved(removed []conflict.About) {
	for _, old := range removed {
		s.journal.Add(conflictsPlace, fmt.Sprintf("conflict %d of %s, of session %s, was removed to make room for a newer one: at most %d of a session are kept, or %d MiB",
			old.ID, quote.Name(s.slug()+":"+old.Path), quote.Name(old.Session), conflict.MaxOfSession, conflict.MaxBytesOfSession>>20))
		s.opts.Logger.Warn("conflict removed to make room", "store", s.slug(), "path", old.Path, "session", old.Session, "conflict", old.ID)
	}
}

func (s *Session) about(l *Loss, why string) conflict.About {
	return conflict.About{
		Store: s.slug(), Path: l.Path, Session: s.opts.ID, Time: s.now().UTC().Truncate(time.Microsecond), Why: quote.Place(why, l.Path),
		Base: conflict.SideOf(l.Base.Version()), Theirs: conflict.SideOf(l.Theirs.Version()),
	}
}

// How a session settles a conflict.
const (
	byWriting    = "its session wrote to the path again"
	ByDismissing = "its session dismissed it"
)

// opened notes a conflict of this session that is not settled.
func (s *Session) opened(path string, id int) {
	if path == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettled[path] = append(s.unsettled[path], id)
}

// isUnsettled reports whether a conflict of this session is not settled. Its file may now have
// another path than the one that it was kept for.
func (s *Session) isUnsettled(id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ids := range s.unsettled {
		if slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

// Wrote notes that a write of this session to a path has succeeded: it has decided on the content
// of the memory, so that its conflicts there are settled. They stay on disk until they expire.
// Holds does that, too.
func (s *Session) Wrote(path string) {
	s.journal.Written(path)
	s.mu.Lock()
	ids := s.unsettled[path]
	delete(s.unsettled, path)
	s.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	s.tasks.Go(func() {
		for _, id := range ids {
			_ = s.settle(id, byWriting)
		}
	})
}

// settle notes on disk that a conflict is settled. One that is gone is settled.
func (s *Session) settle(id int, how string) error {
	err := s.opts.Conflicts.Settle(id, how, s.now())
	if err != nil && !errors.Is(err, conflict.ErrNotFound) {
		s.opts.Logger.Error("settle conflict", "store", s.slug(), "conflict", id, "err", err)
		return err
	}
	return nil
}

// settled notes that a conflict of this session is settled. If it was the last one of its path,
// the journal's entry of the path is taken away.
func (s *Session) settled(path string, id int) {
	s.mu.Lock()
	left := slices.DeleteFunc(s.unsettled[path], func(other int) bool { return other == id })
	if s.unsettled[path] = left; len(left) == 0 {
		delete(s.unsettled, path)
	}
	s.mu.Unlock()
	if len(left) == 0 {
		s.journal.Written(path)
	}
}
