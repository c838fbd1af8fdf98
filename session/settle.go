package session

import "context"

// Settle returns when it is known of every text at or below what want claims what became
// of a commit whose reply was lost. It holds the claims then, which release gives back.
// The error is that of a commit of which it is still not known.
func (s *Session) Settle(ctx context.Context, want func() []Claim) (release func(), err error) {
	for {
		var claims []Claim
		release, err := s.claims.Take(ctx, func() []Claim {
			claims = want()
			return claims
		})
		if err != nil {
			return nil, err
		}
		texts := s.inDoubt(claims)
		if len(texts) == 0 {
			return release, nil
		}
		release()
		for _, t := range texts {
			if err := s.Save(ctx, t, nil); s.IsInDoubt(t) {
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

// covers reports whether claims exclude a change of a path.
func covers(claims []Claim, path string) bool {
	for _, c := range claims {
		if path != "" && (path == c.Path || c.Below && isBelow(path, c.Path)) {
			return true
		}
	}
	return false
}
