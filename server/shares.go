package server

import (
	"mneme/internal/share"
	"mneme/server/access"
)

// shares bounds how much of something each caller has at once: so much as one token, and twice as much
// as one key together with its tokens.
type shares struct {
	perToken int
	share.Shares
}

func newShares(perToken int) *shares { return &shares{perToken: perToken} }

// take counts one more for a caller. ok is false where it has its share already.
func (s *shares) take(c *access.Caller) (giveBack func(), ok bool) {
	return s.Take(share.Bound{Of: c.Actor.ID, Most: 2 * s.perToken}, share.Bound{Of: c.Actor.ID + "/" + c.Token, Most: s.perToken})
}
