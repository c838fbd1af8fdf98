package session

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Claim is a path about to be changed, alone or with all that is below it.
type Claim struct {
	Path  string // canonical, as the log has it; "" and "/" are the whole store, with Below
	Below bool
}

// Covers reports whether a path is in the reach of the claim.
func (c Claim) Covers(path string) bool {
	return path == c.Path || c.Below && isBelow(path, strings.TrimSuffix(c.Path, "/"))
}

// Claims exclude operations that must not overlap: two commits of one file, a rename and a commit
// of a file that it moves, the making of a name in a directory that moves. Operations on
// different paths do not wait for each other.
//
// An operation takes all its claims at once, so that none holds one and waits for another. Claims
// that overlap are granted in the order of their asking, so that the rename of a directory does
// not starve while commits below it continue.
//
// The zero value is ready for use. Claims are held during I/O; they are taken before
// any Turn, and before the locks of a face.
type Claims struct {
	mu    sync.Mutex
	held  claimSet
	queue []*claimant // those that wait, in the order of their asking
}

// claimant is an operation that waits for its claims.
type claimant struct {
	claims  []Claim
	granted chan struct{} // closed when the claims are held
}

// Take returns when the claims that want names are the caller's. Paths move while an operation
// waits, so Take calls want again then; if want then names other claims, Take gives back those
// that it has and takes the new ones. want must not block, but may take the lock of a face. The
// caller calls release once.
//
// The error is that of ctx, which ends the waiting: claims that are free are granted
// nevertheless.
func (c *Claims) Take(ctx context.Context, want func() []Claim) (release func(), err error) {
	g, err := c.grant(ctx, want)
	if err != nil {
		return nil, err
	}
	return g.release, nil // Take is inlined, so that this may stay on the caller's stack
}

// grant is claims that are held.
type grant struct {
	by     *Claims
	claims []Claim
}

func (g *grant) release() { g.by.release(g.claims) }

func (c *Claims) grant(ctx context.Context, want func() []Claim) (grant, error) {
	claims := cleaned(want())
	for {
		if err := c.take(ctx, claims); err != nil {
			return grant{}, err
		}
		now := cleaned(want())
		if slices.Equal(now, claims) {
			return grant{c, claims}, nil
		}
		c.release(claims)
		claims = now
	}
}

// Idle reports whether no caller has or waits for a claim. For tests.
func (c *Claims) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.isEmpty() && len(c.queue) == 0
}

func (c *Claims) take(ctx context.Context, claims []Claim) error {
	w := c.ask(claims)
	if w == nil {
		return nil
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		c.withdraw(w)
		return ctx.Err()
	}
}

// ask returns nil if the claims are granted at once, or the waiter for them.
func (c *Claims) ask(claims []Claim) *claimant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 && !c.held.overlaps(claims) {
		c.held.add(claims)
		return nil
	}
	w := &claimant{claims: claims, granted: make(chan struct{})}
	c.queue = append(c.queue, w)
	c.grantLocked()
	return w
}

// withdraw takes a claimant out of the queue or, if its claims have been granted
// meanwhile, gives them back.
func (c *Claims) withdraw(w *claimant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.queue, w); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	} else {
		c.held.remove(w.claims)
	}
	c.grantLocked()
}

func (c *Claims) release(claims []Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.remove(claims)
	c.grantLocked()
}

// grantLocked grants the claims of those that wait, where they overlap neither claims that are
// held nor earlier requests.
func (c *Claims) grantLocked() {
	var earlier claimSet
	c.queue = slices.DeleteFunc(c.queue, func(w *claimant) bool {
		if c.held.overlaps(w.claims) || earlier.overlaps(w.claims) {
			earlier.add(w.claims)
			return false
		}
		c.held.add(w.claims)
		close(w.granted)
		return true
	})
}

// claimSet is a set of claims, each as often as it was added. Those of one operation
// may overlap.
type claimSet struct {
	alone map[string]int
	below map[string]int // with "" for the whole store
}

func (s *claimSet) isEmpty() bool { return len(s.alone)+len(s.below) == 0 }

func (s *claimSet) overlaps(claims []Claim) bool {
	return slices.ContainsFunc(claims, s.overlapsOne)
}

func (s *claimSet) overlapsOne(c Claim) bool {
	if s.alone[c.Path] > 0 || s.below[c.Path] > 0 {
		return true
	}
	for top := range s.below {
		if isBelow(c.Path, top) || c.Below && isBelow(top, c.Path) {
			return true
		}
	}
	if c.Below {
		for path := range s.alone {
			if isBelow(path, c.Path) {
				return true
			}
		}
	}
	return false
}

func (s *claimSet) add(claims []Claim) {
	for _, c := range claims {
		m := &s.alone
		if c.Below {
			m = &s.below
		}
		if *m == nil {
			*m = map[string]int{}
		}
		(*m)[c.Path]++
	}
}

func (s *claimSet) remove(claims []Claim) {
	for _, c := range claims {
		m := s.alone
		if c.Below {
			m = s.below
		}
		if m[c.Path]--; m[c.Path] == 0 {
			delete(m, c.Path)
		}
	}
}

// cleaned returns the claims with one form of each path. It may change them in place.
func cleaned(claims []Claim) []Claim {
	for i := range claims {
		claims[i].Path = strings.TrimSuffix(claims[i].Path, "/")
	}
	return claims
}

// isBelow reports whether a path lies below another one.
func isBelow(path, top string) bool {
	return len(path) > len(top) && path[len(top)] == '/' && strings.HasPrefix(path, top)
}

// covers reports whether claims exclude a change of a path.
func covers(claims []Claim, path string) bool {
	return path != "" && slices.ContainsFunc(claims, func(c Claim) bool { return c.Covers(path) })
}
