package fusefs

import (
	"math/rand/v2"
	"time"
)

// turn is the newest append of a mount that came on top of another session's
// version. Where several sessions append to one file without a pause, who has
// just appended knows what the others have to fetch first, and would win again
// and again: so it lets them have their turn.
type turn struct {
	path string
	at   time.Time
	took time.Duration // the commit
}

// contention is for how long somebody who appended is taken to go on.
const contention = time.Second

// takeTurn waits before an append to a path, on average for as long as a commit
// takes, when others have appended to it just now. Callers hold no lock of the
// tree.
func (s *store) takeTurn(path string) {
	s.fs.mu.RLock()
	last := s.turn
	s.fs.mu.RUnlock()
	if last.path == path && time.Since(last.at) < contention {
		time.Sleep(rand.N(2*last.took + 1))
	}
}

// hadTurnLocked notes a commit of a draft that began then.
func (s *store) hadTurnLocked(d *draft, began time.Time) {
	b := d.base
	if d.tails && b != nil && b.Session() != s.fs.opts.Session && began.Sub(b.Time()).Abs() < contention {
		s.turn = turn{path: d.path, at: time.Now(), took: time.Since(began)}
	}
}
