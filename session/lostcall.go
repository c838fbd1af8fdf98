package session

import (
	"context"
	"slices"

	"mneme/memory"
	"mneme/versionlog"
)

// loseCall remembers a call whose reply was lost. When there are too many, the oldest is forgotten.
func (s *Session) loseCall(call lostCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetCallLocked(call.key)
	if s.lostCalls = append(s.lostCalls, call); len(s.lostCalls) > maxLost {
		s.lostCalls = slices.Delete(s.lostCalls, 0, 1)
	}
}

func (s *Session) forgetCallLocked(key string) {
	s.lostCalls = slices.DeleteFunc(s.lostCalls, func(call lostCall) bool { return call.key == key })
}

// lostCallsAt returns the lost calls that claims exclude, in the order in which they were made.
func (s *Session) lostCallsAt(claims []Claim) (calls []lostCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.lostCalls {
		if slices.ContainsFunc(call.claims, func(c Claim) bool {
			return slices.ContainsFunc(claims, func(other Claim) bool { return c.Covers(other.Path) || other.Covers(c.Path) })
		}) {
			calls = append(calls, call)
		}
	}
	return calls
}

// findOut asks the log what became of a lost call, and notes what the session knows then.
func (s *Session) findOut(ctx context.Context, call lostCall) error {
	release, err := s.claims.Take(ctx, func() []Claim { return slices.Clone(call.claims) })
	if err != nil {
		return err
	}
	defer release()
	c, err := s.answered(ctx, call.key)
	switch {
	case err != nil:
		return err
	case c != nil:
		s.madeBy(c, call.knows)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetCallLocked(call.key)
	return nil
}

// answered returns the commit that was made under a key; nil: none, as of "". The log answers a key
// that it has with that commit; what is proposed here cannot be made.
func (s *Session) answered(ctx context.Context, key string) (*versionlog.Commit, error) {
	if key == "" {
		return nil, nil
	}
	never := memory.Change{Action: versionlog.Remove, Path: "/never", Expect: versionlog.ExpectVersion("never")}
	c, err := s.store.Batch(ctx, []memory.Change{never}, &memory.CommitOptions{Key: key})
	switch {
	case err == nil:
		return c, nil
	case memory.IsFinal(err):
		return nil, nil
	}
	return nil, err
}
