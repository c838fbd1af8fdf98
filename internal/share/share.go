// Package share bounds how much of something each party has at once: a key, a token, an address.
package share

import "sync"

// Bound is how much one party may have. A party that has no name has no bound.
type Bound struct {
	Of   string
	Most int
}

// Shares counts what each party has. The zero value is ready. Its methods may be called at once
// from many goroutines.
type Shares struct {
	mu   sync.Mutex // guards the fields below; a leaf
	held map[string]int
}

// Take counts one more for all parties. ok is false where one of them has its share already;
// then nothing is counted. To call giveBack again does nothing.
func (s *Shares) Take(parties ...Bound) (giveBack func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parties {
		if p.Of != "" && s.held[p.Of] >= p.Most {
			return nil, false
		}
	}
	if s.held == nil {
		s.held = map[string]int{}
	}
	for _, p := range parties {
		if p.Of != "" {
			s.held[p.Of]++
		}
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range parties {
			if s.held[p.Of]--; s.held[p.Of] <= 0 {
				delete(s.held, p.Of)
			}
		}
	}), true
}

// Parties returns how many have something.
func (s *Shares) Parties() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}
