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
