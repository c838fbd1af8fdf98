package versionlog

import (
	"errors"
	"testing"
	"time"
)

// TestHistoryAheadOfClock makes sure that versions differ in time where the newest one is ahead
// of the clock, and that an hour's quota does not last until then.
func TestHistoryAheadOfClock(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)
	store := Store{ID: NewStoreID(), Epoch: 1, Quota: Quota{PerHour: 2}}
	for name, tc := range map[string]struct {
		ahead   time.Duration
		refused bool
	}{"agrees": {0, true}, "a minute": {time.Minute, true}, "into the next hour": {9 * time.Minute, true}, "an hour": {time.Hour, false}, "ten years": {87600 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			clock := now.Add(25 * time.Minute)
			tip := Tip{Seq: 7, Time: clock.Add(tc.ahead), Totals: Totals{InHour: 1}}
			for range 2 {
				p := &Proposal{Key: NewKey(), Changes: []Change{{Action: Put, Expect: ExpectAbsent(), Path: "/f" + NewKey(), Size: 1, Digest: Digest{1}}}}
				c, err := Build(mapView{}, store, tip, p, clock)
				if tip.Totals.InHour == 2 && tc.refused {
					if !errors.Is(err, ErrQuota) {
						t.Errorf("the third version of an hour: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if tc.ahead > 0 && !c.Time.After(tip.Time) {
					t.Errorf("a version is of %v, behind one of %v", c.Time, tip.Time)
				}
				tip = tip.After(c)
			}
		})
	}
}

// TestDisputedHour makes sure that a clock which says another hour has one hour's versions more.
func TestDisputedHour(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)
	for own, want := range map[time.Time]int64{now: 20, now.Add(time.Second): 20, now.Add(24 * time.Hour): 40, now.Add(-time.Hour): 40} {
		if got := (Quota{PerHour: 20}).Disputed(now, own).PerHour; got != want {
			t.Errorf("%v: %d versions an hour, want %d", own, got, want)
		}
	}
}
