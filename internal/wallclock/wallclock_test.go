package wallclock

import (
	"testing"
	"time"
)

// TestHeard tries own clocks that are right, ahead and behind, and a reply that takes long.
func TestHeard(t *testing.T) {
	right := time.Date(2026, 11, 28, 12, 0, 0, 700_000_000, time.UTC)
	for name, tc := range map[string]struct{ off, took, ahead time.Duration }{
		"right":                     {0, 0, 0},
		"right, a slow reply":       {0, time.Minute, 0},
		"a second ahead":            {time.Second, 0, 0},
		"an hour ahead":             {time.Hour, 0, time.Hour - 300*time.Millisecond},
		"an hour ahead, slow reply": {time.Hour, time.Minute, time.Hour - time.Minute - 300*time.Millisecond},
		"a year behind":             {-8760 * time.Hour, 0, -8760*time.Hour + 700*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			now := right.Add(tc.off)
			c := New(func() time.Time { return now })
			asked := c.Own()
			now = now.Add(tc.took)
			c.Heard(asked, right.Add(tc.took).Truncate(time.Second), time.Second)
			if got := c.Ahead(); got != tc.ahead {
				t.Errorf("it is %v ahead, want %v", got, tc.ahead)
			}
			if got := c.Now().Sub(right.Add(tc.took)); got.Abs() > time.Minute+time.Second || tc.took == 0 && got.Abs() > time.Second {
				t.Errorf("the time is %v from the right one", got)
			}
		})
	}
}

// TestIsFresh tries what makes the other clock worth asking again.
func TestIsFresh(t *testing.T) {
	began := time.Now()
	for name, tc := range map[string]struct {
		now   time.Time
		fresh bool
	}{
		"at once":            {began.Add(fresh / 2), true},
		"later":              {began.Add(fresh), false},
		"set back, later":    {began.Add(-time.Hour), false},
		"set forward":        {began.Round(0).Add(time.Hour), false},
		"set, as time tells": {began.Round(0).Add(-time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			now := began
			c := New(func() time.Time { return now })
			if c.IsFresh() {
				t.Error("it is before anything was heard")
			}
			c.Heard(c.Own(), began, time.Second)
			if now = tc.now; c.IsFresh() != tc.fresh {
				t.Errorf("fresh is %v", !tc.fresh)
			}
		})
	}
}
