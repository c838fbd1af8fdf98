package session

import (
	"context"
	"fmt"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/undo"
)

// RestoreTree restores everything at and below a path, "/" being the whole store, to its state
// right after the commit of a sequence number, as undo.PlanRestore plans it. It is one commit,
// unless the log does not accept so many changes at once: then they are made in order, in as few
// commits as possible, and the same call continues within a week where an earlier one has ended.
//
// Nothing that another session changes meanwhile, also between an earlier call and the one that
// continues, is replaced: it is Left, with the changes that it prevents. The changes that were
// made before an error are in the Steps that come with it.
//
// Errors are those of PlanRestore, CheckSources and memory.Store.Batch.
func (s *Session) RestoreTree(ctx context.Context, path string, seq uint64, opts *StepOptions) (*Steps, error) {
	path, err := memory.ParsePrefix(path)
	if err != nil {
		return nil, err
	}
	message := fmt.Sprintf("restore to %d", seq)
	if path != "/" {
		message = fmt.Sprintf("restore %s to %d", quote.Name(path), seq)
	}
	st := s.newSteps(path, opts, message)
	began, made, err := undo.CutRestore(ctx, s.store, path, seq)
	if err != nil {
		return nil, err
	}
	for _, c := range made {
		st.own[c] = true
	}
	goesOn := len(made) > 0
	st.note = func(more bool) map[string]string {
		if more || len(st.own) > 0 {
			return undo.PartNote(path, seq, began, more)
		}
		return undo.RestoreNote(seq)
	}
	err = st.run(ctx, func(ctx context.Context) ([]undo.Step, bool, error) {
		var changed map[string]bool
		if goesOn {
			var err error
			if changed, err = st.changedSince(ctx, began); err != nil {
				return nil, false, err
			}
		}
		r, err := undo.PlanRestore(ctx, s.store, path, seq, changed)
		if err != nil {
			return nil, false, err
		}
		if !goesOn {
			began, goesOn = r.Tip, true
		}
		st.out.Left = r.Left
		return r.Steps, false, nil
	})
	return &st.out, err
}
