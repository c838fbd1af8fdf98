package session

import (
	"context"
	"errors"
	"fmt"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/undo"
)

// Undone is what has become of an undo.
type Undone struct {
	Steps
	Conflicts []KeptConflict
	By        []string // the sessions that had taken back some of it before, and were not taken back
	Restored  []uint64 // the commits of restores that had
}

// KeptConflict is a memory that an undo has left as it is.
type KeptConflict struct {
	ID   int // of the conflict that keeps the text that should be there; NotKept: it could not be kept
	Path string
	Why  string
}

// Undo takes back the changes that another session, or an earlier undo, made above a sequence
// number, and keeps later changes of others, as undo.PlanUndo plans it. It is one commit, unless
// the log does not accept so many changes at once: then they are made in order, and the same call
// continues where an earlier one has ended. A second call finds nothing to do. To take an undo
// back, undo its session.
//
// Changes that another session makes meanwhile are kept, too: the undo is planned again with
// them. A change that cannot be taken back cleanly stays as it is, and the text that would be
// there is kept as a conflict, once, when all else is done. The changes that were made before an
// error are in the Undone that comes with it.
//
// A later undo believes only those commits that were not made as a session's: the store must be
// open in the name of a person, see memory.Author.
//
// Errors are those of PlanUndo, CheckSources and memory.Store.Batch.
func (s *Session) Undo(ctx context.Context, session string, since uint64, opts *StepOptions) (*Undone, error) {
	st := s.newSteps("/", opts, "undo session "+quote.Name(session))
	var plan *undo.Undo
	err := st.run(ctx, func(ctx context.Context) (_ []undo.Step, more bool, err error) {
		if plan, err = undo.PlanUndo(ctx, s.store, session, since); err != nil {
			return nil, false, err
		}
		st.note = func(bool) map[string]string { return undo.UndoNote(session, since, plan.Tip) }
		return plan.Steps, plan.More, nil
	})
	u := &Undone{Steps: st.out}
	if plan != nil {
		u.Left, u.By, u.Restored = plan.Left, plan.By, plan.Restored
	}
	if err != nil {
		return u, err
	}
	for _, c := range plan.Conflicts {
		kept, err := s.keepUndo(ctx, session, c)
		if err != nil {
			return u, err
		}
		u.Conflicts = append(u.Conflicts, kept)
	}
	return u, nil
}

// keepUndo keeps what would be there without a session, unless an earlier undo has.
func (s *Session) keepUndo(ctx context.Context, session string, c undo.UndoConflict) (KeptConflict, error) {
	kept := KeptConflict{ID: NotKept, Path: c.Path, Why: c.Why}
	if s.opts.Conflicts == nil {
		return kept, nil
	}
	id, err := s.opts.Conflicts.Find(c.Path, c.Yours)
	if err != nil && !errors.Is(err, conflict.ErrNotFound) {
		return kept, err
	}
	if kept.ID = id; id == 0 {
		kept.ID = s.Keep(ctx, Loss{
			Path: c.Path, Base: memory.NewHead(c.Base), Theirs: memory.NewHead(c.Theirs), Yours: c.Yours,
			Why: fmt.Sprintf("undo of session %s: %s", quote.Name(session), c.Why),
		})
	}
	return kept, nil
}
