package dynamolog

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/versionlog"
)

// TestOwnClockIsWrong makes sure that a process whose clock is wrong commits by that of the
// servers, and neither holds up others nor writes without bound.
func TestOwnClockIsWrong(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 87600 * time.Hour, "behind": -87600 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, awstest.DynamoDB(t))
			right, wrong := b.open(t, nil, nil), b.open(t, nil, nil)
			wrong.now = func() time.Time { return time.Now().Add(off) }
			s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "s", Quota: versionlog.Quota{PerHour: 2}}
			if err := right.CreateStore(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i, l := range []*Log{wrong, right, right, wrong, wrong, wrong} {
				p := &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{{Action: versionlog.MakeDir, Expect: versionlog.ExpectAbsent(), Path: fmt.Sprintf("/%d/", i)}}}
				c, err := l.Commit(t.Context(), s.ID, p)
				refused := i == 2 || i == 5 // an hour's versions by each clock
				sameHour := !time.Now().Truncate(time.Hour).After(began)
				if err != nil && !errors.Is(err, versionlog.ErrQuota) || sameHour && (err != nil) != refused {
					t.Fatalf("commit %d: %v", i, err)
				}
				if err == nil && (c.Time.Before(began.Add(-3*time.Second)) || c.Time.After(time.Now().Add(3*time.Second))) {
					t.Errorf("commit %d is of %v", i, c.Time)
				}
			}
			if now, ahead := wrong.Capabilities().Clock(); (ahead-off).Abs() > 3*time.Second || time.Since(now).Abs() > 3*time.Second {
				t.Errorf("the servers' clock is %v, and the own one %v ahead", now, ahead)
			}
		})
	}
}
