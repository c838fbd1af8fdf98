package memory

import (
	"context"
	"iter"
)

// CheckSources reads the contents that steps take from earlier versions, and returns what keeps one
// from being current again: that it is lost, or more than the store takes now. Errors are those of
// Content and Check. done is told how many steps are looked at.
func (s *Store) CheckSources(ctx context.Context, steps []Step, done func(int)) error {
	for len(steps) > 0 {
		n, size := 0, int64(0)
		var heads []*Head
		for n < len(steps) && (n == 0 || len(heads) < s.BatchSize() && size < maxReadAhead) {
			if v := steps[n].Change.Source; v != nil {
				heads, size = append(heads, NewHead(v)), size+v.Size
			}
			n++
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

// StepPatch is a step, and what it does in the form of Patch; "" of a directory.
type StepPatch struct {
	Step
	Text string
}

// StepPatches yields the patches of steps in their order, as Patches does.
func (s *Store) StepPatches(ctx context.Context, steps []Step) iter.Seq2[StepPatch, error] {
	return func(yield func(StepPatch, error) bool) {
		var plain []Difference
		for i := range steps {
			if d, ok := steps[i].difference(); ok {
				plain = append(plain, d)
			}
		}
		next, stop := iter.Pull2(s.Patches(ctx, plain))
		defer stop()
		for _, step := range steps {
			p := StepPatch{Step: step}
			var err error
			if _, ok := step.difference(); ok {
				var f FilePatch
				f, err, _ = next()
				p.Text = f.Text
			} else if !isDirPath(step.Path()) {
				p.Text, err = s.mergePatch(ctx, &step)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// difference returns what a step of a memory changes; false where one side is no version.
func (s *Step) difference() (d Difference, ok bool) {
	if isDirPath(s.Path()) || s.To != nil && s.To.Source == nil {
		return d, false
	}
	if d.From = s.From; s.To != nil {
		d.To = s.To.Source
	}
	return d, true
}

// mergePatch is the patch of a step to a content that no version has yet.
func (s *Store) mergePatch(ctx context.Context, step *Step) (string, error) {
	to := Side{Path: step.Path(), Label: s.info.Slug + ":" + step.Path(), Text: step.To.Content}
	if step.From == nil {
		return Patch(Side{}, to, false), nil
	}
	data, err := s.Content(ctx, *step.From)
	if err != nil {
		return "", err
	}
	return Patch(s.Side(step.From.Path, *step.From, data), to, true), nil
}
