package session

import "context"

// Settle returns when the outcome of each commit whose reply was lost is known, for every text,
// and every call of names, at or below the paths that want claims. It holds the claims then;
// release gives them back. save saves one of these texts; nil: Save does, and nothing more. The
// error is why an outcome is still not known.
func (s *Session) Settle(ctx context.Context, want func() []Claim, save func(Text) error) (release func(), err error) {
	if save == nil {
		save = func(t Text) error { return s.Save(ctx, t, nil) }
	}
	for {
		var claims []Claim
		release, err := s.claims.Take(ctx, func() []Claim {
			claims = want()
			return claims
		})
		if err != nil {
			return nil, err
		}
		texts, calls := s.inDoubt(claims), s.lostCallsAt(claims)
		if len(texts)+len(calls) == 0 {
			return release, nil
		}
		release()
		for _, call := range calls {
			if err := s.findOut(ctx, call); err != nil {
				return nil, err
			}
		}
		for _, t := range texts {
			if err := save(t); err != nil && s.IsInDoubt(t.LostReply()) {
				return nil, err
			}
		}
	}
}

// inDoubt returns the texts at or below claims of which it is not known whether they are
// in the log.
func (s *Session) inDoubt(claims []Claim) (texts []Text) {
	s.mu.Lock()
	lost := map[Text]string{}
	for _, one := range s.pending {
		if one.makers == 0 && one.draft != nil && one.text.LostReply().draft == one.draft {
			lost[one.text] = one.draft.Path
		}
	}
	s.mu.Unlock()
	for t, path := range lost {
		if covers(claims, path) || covers(claims, t.Path()) {
			texts = append(texts, t)
		}
	}
	return texts
}
