package undo

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"mneme/history"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// CheckSources reads the versions that steps take from the past, and their contents, and returns what
// keeps one from being current again: that the past which the plan was made of says something else of
// it than the history, that it is lost, or more than the store takes now. Errors are those of Content
// and Check, and versionlog.ErrCorrupt. done is told how many steps are looked at.
func CheckSources(ctx context.Context, s *memory.Store, steps []Step, done func(int)) error {
	for len(steps) > 0 {
		n, size := 0, int64(0)
		var heads []*memory.Head
		for n < len(steps) && (n == 0 || len(heads) < s.BatchSize() && size < history.MaxReadAhead) {
			if v := steps[n].Change.Source; v != nil {
				heads, size = append(heads, memory.NewHead(v)), size+v.Size
			}
			n++
		}
		if err := checkVersions(ctx, s, steps[:n]); err != nil {
			return err
		}
		contents := s.Contents(ctx, heads)
		for _, step := range steps[:n] {
			v := step.Change.Source
			if v == nil {
				continue
			}
			data := contents[0]
			if contents = contents[1:]; data == nil {
				var err error
				if data, err = s.Content(ctx, *v); err != nil {
					return err
				}
			}
			if err := s.Check(step.Path(), data); err != nil {
				return err
			}
		}
		done(n)
		steps = steps[n:]
	}
	return ctx.Err()
}

// checkVersions makes sure that the versions that steps take from the past are what the history says:
// a snapshot of the past may be damaged, or forged, where others may write to it.
func checkVersions(ctx context.Context, s *memory.Store, steps []Step) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, s.BatchSize()))
	for _, step := range steps {
		v := step.Change.Source
		if v == nil {
			continue
		}
		group.Go(func() error {
			is, err := s.Log().Version(groupCtx, s.Info().ID, v.ID)
			switch {
			case errors.Is(err, versionlog.ErrNotFound):
				return notHistory(s, v, err)
			case err != nil:
				return s.Wrap(step.Path(), err)
			case is.Redacted():
				return s.RedactionOf(ctx, &is)
			case is != *v:
				return notHistory(s, v, nil)
			}
			return nil
		})
	}
	return group.Wait()
}

// notHistory says that the past has a version that the history has not.
func notHistory(s *memory.Store, v *versionlog.Version, err error) error {
	return errors.Join(fmt.Errorf("%w: %s of store %s: the snapshot of the past has another version %s than the history; nothing was restored",
		versionlog.ErrCorrupt, quote.Name(v.Path), s.Info().Slug, quote.Name(v.ID)), err)
}

// StepPatch is a step, and what it does in the form of Patch; "" of a directory.
type StepPatch struct {
	Step
	Text string
}

// StepPatches yields the patches of steps in their order, as Patches does.
func StepPatches(ctx context.Context, s *memory.Store, steps []Step) iter.Seq2[StepPatch, error] {
	return func(yield func(StepPatch, error) bool) {
		var plain []history.Difference
		for i := range steps {
			if d, ok := steps[i].difference(); ok {
				plain = append(plain, d)
			}
		}
		next, stop := iter.Pull2(history.Patches(ctx, s, plain))
		defer stop()
		for _, step := range steps {
			p := StepPatch{Step: step}
			var err error
			if _, ok := step.difference(); ok {
				var f history.FilePatch
				f, err, _ = next()
				p.Text = f.Text
			} else if !isDirPath(step.Path()) {
				p.Text, err = mergePatch(ctx, s, &step)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// difference returns what a step of a memory changes; false where one side is no version.
func (s *Step) difference() (d history.Difference, ok bool) {
	if isDirPath(s.Path()) || s.To != nil && s.To.Source == nil {
		return d, false
	}
	if d.From = s.From; s.To != nil {
		d.To = s.To.Source
	}
	return d, true
}

// mergePatch is the patch of a step to a content that no version has yet.
func mergePatch(ctx context.Context, s *memory.Store, step *Step) (string, error) {
	to := history.Side{Path: step.Path(), Label: s.Info().Slug + ":" + step.Path(), Text: step.To.Content}
	if step.From == nil {
		return history.Patch(history.Side{}, to, false), nil
	}
	data, err := s.Content(ctx, *step.From)
	if err != nil {
		return "", err
	}
	return history.Patch(history.SideOf(s, step.From.Path, *step.From, data), to, true), nil
}
