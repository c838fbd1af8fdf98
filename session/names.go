package session

import (
	"cmp"
	"context"
	"slices"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// Rename moves the memory at from, or the directory with all that is below it, to the path to in
// one commit, and returns that. Nothing may be at to. The session's knowledge moves along. A
// version that the session has moved without reading it stays protected at its old path: until
// the session has read it, it makes nothing new there except by an append, and moves nothing
// there, not even with its directory: a *LostError.
//
// Other errors are those of memory.Store.Rename. opts.Expect is not used.
func (s *Session) Rename(ctx context.Context, from, to string, opts *WriteOptions) (*versionlog.Commit, error) {
	from, err := s.enter(from, 0)
	if err != nil {
		return nil, err
	}
	below, err := memory.ParsePath(to)
	if err != nil {
		return nil, err
	}
	claims := []Claim{{Path: from, Below: true}, {Path: below, Below: true}}
	release, err := s.Settle(ctx, func() []Claim { return slices.Clone(claims) }, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	if c, err := s.answered(ctx, opts.key()); c != nil || err != nil {
		return c, err
	}
	if e := s.AdmitMove(from, below, s.headIn(ctx)); e != nil {
		s.Report(e, "")
		return nil, e
	}
	return s.commitBy(ctx, claims, opts, Knowledge.Wrote, func(ctx context.Context, o *memory.CommitOptions) (*versionlog.Commit, error) {
		return s.store.Rename(ctx, from, to, o)
	})
}

// Remove deletes the memory at a path, and returns the version that says so. It removes
// what the session knows or, of a memory that it has never read, whatever is there: the
// history keeps it.
//
// It is refused with a *LostError where another session has changed the memory since, or
// where the session has done no more than read another session's change: a program that
// removes that without having been told of it may mean what was there before.
// versionlog.ErrNotFound when there is no memory.
func (s *Session) Remove(ctx context.Context, path string, opts *WriteOptions) (versionlog.Version, error) {
	path, release, err := s.enterClaimed(ctx, path, 0)
	if err != nil {
		return versionlog.Version{}, err
	}
	defer release()
	if c, err := s.answered(ctx, opts.key()); c != nil || err != nil {
		return firstOf(c), err
	}
	expect, err := s.removal(ctx, path, opts)
	if err != nil {
		return versionlog.Version{}, err
	}
	c, err := s.commit(ctx, []memory.Change{{Action: versionlog.Remove, Path: path, Expect: expect}}, opts, Knowledge.Wrote)
	if err != nil {
		return versionlog.Version{}, s.removalError(path, opts, memory.AbsentAsNotFound(err))
	}
	return c.Versions[0], nil
}

// removal returns what must be at a path for the memory there to be removed, or why it may not be.
func (s *Session) removal(ctx context.Context, path string, opts *WriteOptions) (versionlog.Expectation, error) {
	if own := opts.expect(); own != nil {
		return *own, nil
	}
	k := s.known.Of(path)
	if !k.IsKnown() && !k.WasRefused() {
		return versionlog.ExpectExists(), nil
	}
	known := k.Head()
	if known == nil { // the memory there now is another session's
		v, err := s.store.Head(ctx, path)
		if err != nil {
			return versionlog.Expectation{}, err
		}
		known = memory.NewHead(&v)
	}
	if e := s.AdmitRemoval(path, known); e != nil {
		s.Report(e, "")
		return versionlog.Expectation{}, e
	}
	return versionlog.ExpectDigest(known.Digest()), nil
}

// removalError is the error of a removal, which says what came in between if the session
// knows what it meant to remove.
func (s *Session) removalError(path string, opts *WriteOptions, err error) error {
	theirs, refused := versionlog.ConflictAt(err, path)
	if !refused || opts.expect() != nil || theirs == nil {
		return err
	}
	e := s.AdmitRemoval(path, memory.NewHead(theirs))
	if e == nil {
		return err
	}
	s.Report(e, "")
	return e
}

// RemoveTree deletes every memory and directory at and below a path in one commit, and
// returns it. "/" is the whole store. It is refused as Remove is, for the first memory that
// Remove would not remove. versionlog.ErrNotFound when there is none. Of opts, Expect is not
// used.
func (s *Session) RemoveTree(ctx context.Context, path string, opts *WriteOptions) (*versionlog.Commit, error) {
	path, err := memory.ParsePrefix(path)
	if err != nil {
		return nil, err
	}
	if err := s.opts.Budget.Take(1, 0); err != nil {
		return nil, err
	}
	claims := []Claim{{Path: path, Below: true}}
	release, err := s.Settle(ctx, func() []Claim { return slices.Clone(claims) }, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	if c, err := s.answered(ctx, opts.key()); c != nil || err != nil {
		return c, err
	}
	return s.commitBy(ctx, claims, opts, Knowledge.Wrote, func(ctx context.Context, o *memory.CommitOptions) (*versionlog.Commit, error) {
		return s.store.RemoveTree(ctx, path, func(v *versionlog.Version) error {
			if opts != nil && opts.Admit != nil {
				if err := opts.Admit(v); err != nil {
					return err
				}
			}
			return s.admitRemovalOf(v)
		}, o)
	})
}

// admitRemovalOf is AdmitRemoval for a memory that was listed.
func (s *Session) admitRemovalOf(v *versionlog.Version) error {
	e := s.AdmitRemoval(v.Path, memory.NewHead(v))
	if e == nil {
		return nil
	}
	s.Report(e, "")
	return e
}

// Restore makes the content of a version that of a path again, and returns the version that
// holds it then. It replaces what is there, which a guard of the store lets pass; its rule for
// secrets obeys opts. Of opts, Expect is not used; a Message that is "" says which version it
// was.
func (s *Session) Restore(ctx context.Context, path string, v versionlog.Version, opts *WriteOptions) (versionlog.Version, error) {
	path, release, err := s.enterClaimed(ctx, path, 0)
	if err != nil {
		return versionlog.Version{}, err
	}
	defer release()
	change, err := history.Restoring(ctx, s.store, path, v)
	if err != nil {
		return versionlog.Version{}, err
	}
	own := WriteOptions{}
	if opts != nil {
		own = *opts
	}
	own.Message, own.restores = cmp.Or(own.Message, "restore "+v.ID), true
	return s.putChange(ctx, change, &own)
}
