package session

import (
	"context"
	"errors"
	"slices"

	"mneme/memory"
	"mneme/undo"
	"mneme/versionlog"
)

// StepOptions go with changes that are planned; nil and the zero value are the default.
type StepOptions struct {
	Message   string           // for people, of each commit; "": what was done
	Confirmed bool             // a user means changes that the store's guard holds back otherwise
	Actor     versionlog.Actor // zero: the author for whom the store was opened
	// Progress is told how many of how many changes are looked at or made, for a person. Nil: no
	// report is needed.
	Progress func(step string, done, total int)
}

// Steps is what has become of planned changes.
type Steps struct {
	First, Last uint64 // the commits that were made; 0: none
	Commits     int
	Changes     map[versionlog.Op]int // what they did
	Left        []undo.Left           // what others have in the way, or have changed meanwhile
}

// steps makes planned changes.
type steps struct {
	s    *Session
	path string // at or below which all are
	opts StepOptions
	out  Steps
	note func(more bool) map[string]string // the metadata of a commit, after which more will come
	own  map[uint64]bool                   // the commits that were made
	most int                               // how many changes a commit takes, as far as that is known; 0: any number
}

func (s *Session) newSteps(path string, opts *StepOptions, message string) *steps {
	st := &steps{s: s, path: path, own: map[uint64]bool{}, out: Steps{Changes: map[versionlog.Op]int{}}}
	if opts != nil {
		st.opts = *opts
	}
	if st.opts.Message == "" {
		st.opts.Message = message
	}
	if st.opts.Progress == nil {
		st.opts.Progress = func(string, int, int) {}
	}
	return st
}

// maxReplans bounds how often changes are planned again. Each time another session has changed
// something that they were meant to change.
const maxReplans = 20

// run plans and makes changes. When others overtake it, or more is left to do, it plans again.
func (st *steps) run(ctx context.Context, plan func(context.Context) (todo []undo.Step, more bool, err error)) error {
	for try := 0; ; try++ {
		todo, more, err := plan(ctx)
		if err != nil || len(todo) == 0 {
			return err
		}
		err = st.make(ctx, todo)
		if err == nil && more && try < maxReplans {
			continue
		}
		overtaken := errors.Is(err, versionlog.ErrConflict) || errors.Is(err, versionlog.ErrOverlap) || errors.Is(err, versionlog.ErrInvalid)
		if !overtaken || try >= maxReplans {
			return err
		}
		st.s.backOff(ctx, try)
	}
}

// make makes changes in their order, in as few commits as the log takes.
func (st *steps) make(ctx context.Context, todo []undo.Step) error {
	total := len(todo)
	looked := 0
	err := undo.CheckSources(ctx, st.s.store, todo, func(n int) {
		looked += n
		st.opts.Progress("reading", looked, total)
	})
	if err != nil {
		return err
	}
	for len(todo) > 0 {
		n := len(todo)
		if st.most > 0 {
			n = min(n, st.most)
		}
		c, err := st.commit(ctx, todo[:n], n < len(todo))
		switch {
		case errors.Is(err, versionlog.ErrTooLarge) && n > 1:
			st.most = n / 2
			continue
		case err != nil:
			return err
		}
		st.made(c)
		todo = todo[n:]
		st.opts.Progress("writing", total-len(todo), total)
	}
	return nil
}

func (st *steps) commit(ctx context.Context, todo []undo.Step, more bool) (*versionlog.Commit, error) {
	if err := st.s.opts.Budget.Take(1, 0); err != nil {
		return nil, err
	}
	claims := []Claim{{Path: st.path, Below: true}}
	release, err := st.s.Settle(ctx, func() []Claim { return slices.Clone(claims) }, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	changes := make([]memory.Change, len(todo))
	for i := range todo {
		changes[i] = todo[i].Change
	}
	opts := &WriteOptions{Message: st.opts.Message, Meta: st.note(more), Confirmed: st.opts.Confirmed, Actor: st.opts.Actor}
	return st.s.commitBy(ctx, claims, opts, Knowledge.Wrote, func(ctx context.Context, o *memory.CommitOptions) (*versionlog.Commit, error) {
		return st.s.store.Batch(ctx, changes, o)
	})
}

// made notes a commit.
func (st *steps) made(c *versionlog.Commit) {
	if !c.Changes() {
		return
	}
	if st.out.First == 0 {
		st.out.First = c.Seq
	}
	st.out.Last = c.Seq
	st.out.Commits++
	st.own[c.Seq] = true
	for i := range c.Versions {
		st.out.Changes[c.Versions[i].Op]++
	}
}

// changedSince returns the paths that others have changed in commits above a sequence number.
func (st *steps) changedSince(ctx context.Context, seq uint64) (map[string]bool, error) {
	paths := map[string]bool{}
	for c, err := range st.s.store.Commits(ctx, seq) {
		if err != nil {
			return nil, err
		}
		if st.own[c.Seq] {
			continue
		}
		for path := range c.Heads() {
			paths[path] = true
		}
	}
	return paths, nil
}
