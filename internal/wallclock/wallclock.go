// Package wallclock holds a process's own clock against another one, such as that of a
// server or a file system, which all who write to the same place have in common.
package wallclock

import (
	"sync"
	"time"
)

// fresh is for how long what was heard counts, unless the own clock is set meanwhile.
const fresh = time.Second

// tolerance is by how much an own clock may differ before it counts as wrong.
const tolerance = 2 * time.Second

// Clock tells the time as the other clock has it, once that was heard. Its methods may be
// called at once from many goroutines.
type Clock struct {
	own func() time.Time

	mu    sync.Mutex // guards the fields below
	off   time.Duration
	heard time.Time // by the own clock, which may tell how much time has passed besides; zero: never
}

// New returns a clock that agrees with own until another one is heard.
func New(own func() time.Time) *Clock { return &Clock{own: own} }

// Own returns the time by the own clock.
func (c *Clock) Own() time.Time { return c.own().Round(0) } // of which only the wall clock is compared

// Now returns the time by the other clock; by the own one where the two agree, since that is finer.
func (c *Clock) Now() time.Time {
	now, _ := c.Both()
	return now
}

// Both returns Now and Own of one moment.
func (c *Clock) Both() (now, own time.Time) {
	own = c.Own()
	return own.Add(-c.Ahead()), own
}

// Ahead returns how far the own clock is ahead of the other one, below 0: behind it. It is 0
// where they agree, to a few seconds.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

// IsFresh reports whether the other clock was heard a moment ago, and the own one was not set since.
func (c *Clock) IsFresh() bool {
	c.mu.Lock()
	heard := c.heard
	c.mu.Unlock()
	now := c.own()
	passed, shown := now.Sub(heard), now.Round(0).Sub(heard.Round(0))
	return !heard.IsZero() && passed >= 0 && passed < fresh && (shown-passed).Abs() < fresh
}

// Heard notes that the other clock showed a time, in whole units, at some moment since the own
// one showed asked. So a reply that took long is not taken for a clock that is wrong.
func (c *Clock) Heard(asked, other time.Time, unit time.Duration) {
	own := c.own()
	least, most := asked.Sub(other.Add(unit)), own.Round(0).Sub(other)
	off := time.Duration(0)
	switch {
	case least > tolerance:
		off = least
	case most < -tolerance:
		off = most
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.heard = off, own
}
