package sqlitelog

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/versionlog"
)

// TestOwnClockIsWrong makes sure that a process whose clock is wrong commits by that of the files,
// and neither holds up others nor writes without bound.
func TestOwnClockIsWrong(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 87600 * time.Hour, "an hour ahead": time.Hour, "behind": -87600 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			right, wrong := openTest(t, dir, nil), openTest(t, dir, nil)
			wrong.now = func() time.Time { return time.Now().Add(off) }
			s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: "s", Quota: versionlog.Quota{PerHour: 3}}
			if err := right.CreateStore(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			n := 0
			commit := func(l *Log) (*versionlog.Commit, error) {
				n++
				p := &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{{Action: versionlog.MakeDir, Expect: versionlog.ExpectAbsent(), Path: fmt.Sprintf("/%d/", n)}}}
				return l.Commit(t.Context(), s.ID, p)
			}
			before := time.Now().Add(-time.Second)
			for _, l := range []*Log{wrong, right, right} {
				c, err := commit(l)
				if err != nil {
					t.Fatal(err)
				}
				if c.Time.Before(before) || c.Time.After(time.Now().Add(time.Second)) {
					t.Errorf("a commit is of %v", c.Time)
				}
			}
			if _, err := commit(right); !errors.Is(err, versionlog.ErrQuota) && time.Since(before).Truncate(time.Hour) == 0 {
				t.Errorf("the fourth version of an hour: %v", err)
			}
			for range 3 {
				if _, err := commit(wrong); err != nil {
					t.Errorf("in another hour by its own clock: %v", err)
				}
			}
			if _, err := commit(wrong); !errors.Is(err, versionlog.ErrQuota) {
				t.Errorf("the seventh version: %v", err)
			}
			if now, ahead := wrong.Capabilities().Clock(); (ahead-off).Abs() > time.Second || time.Since(now).Abs() > time.Second {
				t.Errorf("the clock of the files is %v, and its own %v ahead", now, ahead)
			}
			if _, ahead := right.Capabilities().Clock(); ahead != 0 {
				t.Errorf("a right clock is %v ahead", ahead)
			}
		})
	}
}
