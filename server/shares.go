package server

import (
	"sync"

	"mneme/server/access"
)

// shares bounds how much of something each caller has at once: so much as one token, and twice as much
// as one key together with its tokens.
type shares struct {
	perToken int

	mu       sync.Mutex // guards what follows; a leaf
	byCaller map[string]int
}

func newShares(perToken int) *shares { return &shares{perToken: perToken, byCaller: map[string]int{}} }

// take counts one more for a caller. ok is false where it has its share already.
func (s *shares) take(c *access.Caller) (giveBack func(), ok bool) {
	who := []string{c.Actor.ID, c.Actor.ID + "/" + c.Token}
	most := []int{2 * s.perToken, s.perToken}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range who {
		if s.byCaller[who[i]] >= most[i] {
			return nil, false
		}
	}
	for _, one := range who {
		s.byCaller[one]++
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, one := range who {
			if s.byCaller[one]--; s.byCaller[one] == 0 {
				delete(s.byCaller, one)
			}
		}
	}), true
}
