package session

import (
	"cmp"
	"context"

	"mneme/memory"
	"mneme/versionlog"
)

// Batch makes all changes in one commit, or none, under the expectations that they carry, and
// returns it. The session knows afterwards what it has made. A batch that fails is not kept.
// Errors are those of memory.Store.Batch. opts.Expect is not used.
func (s *Session) Batch(ctx context.Context, changes []memory.Change, opts *WriteOptions) (*versionlog.Commit, error) {
	bytes := 0
	for _, c := range changes {
		bytes += len(c.Content)
	}
	if err := s.opts.Budget.Take(1, int64(bytes)); err != nil {
		return nil, err
	}
	release, err := s.Settle(ctx, func() []Claim { return claimsOfChanges(changes) }, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	return s.commit(ctx, changes, opts, Knowledge.Wrote)
}

func claimsOfChanges(changes []memory.Change) (claims []Claim) {
	for _, c := range changes {
		for _, path := range []string{c.Path, c.To} {
			if canonical, err := memory.ParsePath(path); err == nil { // else the commit is refused
				claims = append(claims, Claim{Path: canonical})
			}
		}
	}
	return claims
}

// commit makes changes in one commit, and notes what the session knows then.
func (s *Session) commit(ctx context.Context, changes []memory.Change, opts *WriteOptions, knows knowing) (*versionlog.Commit, error) {
	return s.commitBy(ctx, claimsOfChanges(changes), opts, knows, func(ctx context.Context, o *memory.CommitOptions) (*versionlog.Commit, error) {
		return s.store.Batch(ctx, changes, o)
	})
}

// commitBy makes one commit by run, for which the caller has claims, and notes what the session knows
// then.
func (s *Session) commitBy(ctx context.Context, claims []Claim, opts *WriteOptions, knows knowing, run func(context.Context, *memory.CommitOptions) (*versionlog.Commit, error)) (made *versionlog.Commit, err error) {
	key := cmp.Or(opts.key(), versionlog.NewKey())
	var warned warnings
	err = s.Commit(ctx, Proposal{Key: key, Run: func(ctx context.Context, _ *memory.CommitOptions) (*versionlog.Commit, error) {
		full := s.commitOptions(opts)
		full.Key, full.Fresh = key, opts.key() == ""
		full.Warn = warned.and(full.Warn)
		return run(ctx, &full)
	}}, func(c *versionlog.Commit) {
		made = c
		s.madeBy(c, knows)
	})
	s.note(warned)
	if err != nil && !memory.IsFinal(err) && !s.opts.Followed {
		s.loseCall(lostCall{key, claims, knows})
	}
	return made, err
}
