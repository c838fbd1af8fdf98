package session

import (
	"context"
	"fmt"

	"mneme/internal/quote"
	"mneme/memory"
)

// RestoreTree makes what is at and below a path, "/" being the whole store, what it was right after
// the commit of a sequence number, as memory.Store.PlanRestore plans it. It is one commit, unless
// the log does not take as many changes at once: then they are made in order, in as few as it takes, and
// the same call goes on where an earlier one has ended.
//
// Nothing that another session changes meanwhile is replaced: it is Left, with what its being there
// prevents. What was made before an error is in the Steps that come with it.
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
	st.opts.meta = memory.RestoreNote(seq)
	var began *uint64
	err = st.run(ctx, func(ctx context.Context) ([]memory.Step, bool, error) {
		var changed map[string]bool
		if began != nil {
			var err error
			if changed, err = st.changedSince(ctx, *began); err != nil {
				return nil, false, err
			}
		}
		r, err := s.store.PlanRestore(ctx, path, seq, changed)
		if err != nil {
			return nil, false, err
		}
		if began == nil {
			began = &r.Tip
		}
		st.out.Left = r.Left
		return r.Steps, false, nil
	})
	return &st.out, err
}
