package fusefs

import (
	"context"
	"errors"
	"slices"
	"time"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// commit makes a commit of names. When it is in the log, bring brings it into the tree,
// under fs.mu; the follower leaves it alone.
func (s *store) commit(changes []memory.Change, bring func(*versionlog.Commit)) error {
	return s.commitBy(func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error) {
		return s.memory.Batch(ctx, changes, opts)
	}, bring)
}

// commitBy is commit by a function that makes the commit.
func (s *store) commitBy(run func(context.Context, *memory.CommitOptions) (*versionlog.Commit, error), bring func(*versionlog.Commit)) error {
	return s.tried(func() error {
		return s.session.Commit(s.fs.ctx, session.Proposal{Run: run}, func(c *versionlog.Commit) {
			s.fs.mu.Lock()
			defer s.fs.mu.Unlock()
			s.countLocked(c)
			s.session.Freed(c)
			bring(c)
			s.tree.FreedLocked(c)
		})
	})
}

// tried makes a commit, and counts it. A refusal because of the tree is then shown: the program
// that is told of it sees it.
func (s *store) tried(commit func() error) error {
	start := time.Now()
	err := s.rewrittenBy()
	if err == nil {
		err = commit()
		s.noteRewritten(err)
	}
	s.tries.Add(1)
	s.nanoseconds.Add(uint64(time.Since(start)))
	if err == nil {
		s.unsaved.Store(nil)
		return nil
	}
	if !memory.IsFinal(err) && !errors.Is(err, context.Canceled) {
		s.unsaved.Store(&err)
	}
	if isGone(err) {
		_ = s.catchUp(s.fs.ctx)
	}
	if isConflict(err) {
		s.conflicts.Add(1)
		s.fs.mu.Lock()
		defer s.fs.mu.Unlock()
		s.showRefusalLocked(err)
	}
	return err
}

// countLocked counts a commit of this mount, and notes what it frees.
func (s *store) countLocked(c *versionlog.Commit) {
	if len(c.Versions) > 0 {
		s.commits.Add(1)
	}
	s.tree.NoteFreedLocked(c)
}

// showRefusalLocked shows what a commit was refused for.
func (s *store) showRefusalLocked(err error) {
	var lost *versionlog.ConflictError
	if errors.As(err, &lost) {
		for _, c := range lost.Conflicts {
			if c.Head != nil {
				s.tree.ShowLocked(*c.Head)
			}
		}
	}
}

// isGone reports whether a commit was refused because there is no memory where
// it expects one.
func isGone(err error) bool {
	var lost *versionlog.ConflictError
	if !errors.As(err, &lost) {
		return errors.Is(err, versionlog.ErrNotFound)
	}
	return slices.ContainsFunc(lost.Conflicts, func(c versionlog.Conflict) bool { return c.Head == nil })
}

func isConflict(err error) bool { return errors.Is(err, versionlog.ErrConflict) }
