package sqlitelog

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/versionlog"
)

// TestDraft: a large proposal is judged while others write, and what they have
// written by its turn counts.
func TestDraft(t *testing.T) {
	for name, test := range map[string]struct {
		path string // that the other writes
		want error
	}{
		"elsewhere":      {"/elsewhere", nil},
		"what is moved":  {"/old/7", versionlog.ErrConflict},
		"where it moves": {"/new/7", versionlog.ErrConflict},
		"below that":     {"/new/7/x", versionlog.ErrOverlap},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := newLog(t)
			other := openTest(t, dir, nil)
			meanwhile := func() {}
			l := openTest(t, dir, &Options{Now: func() time.Time {
				meanwhile()
				return time.Now()
			}})
			p := &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true}
			for i := range draftFrom {
				v := put(t, l, s.ID, fmt.Sprint("/old/", i), "1").Versions[0]
				p.Changes = append(p.Changes, versionlog.Change{
					Action: versionlog.Rename, Path: v.Path, To: fmt.Sprint("/new/", i), Expect: versionlog.ExpectVersion(v.ID),
				})
			}
			judged := 0
			meanwhile = func() {
				if judged++; judged == 1 {
					put(t, other, s.ID, test.path, "theirs")
				}
			}
			c, err := l.Commit(t.Context(), s.ID, p)
			if !errors.Is(err, test.want) || judged != 2 {
				t.Errorf("judged %d times: %v, want twice and %v", judged, err, test.want)
			}
			if err != nil {
				return
			}
			if again, err := l.Commit(t.Context(), s.ID, p); err != nil || again.Digest != c.Digest {
				t.Errorf("again: %+v, %v", again, err)
			}
			for i := range p.Changes { // no other proposal comes between
				p.Changes[i].Path, p.Changes[i].To, p.Changes[i].Expect = p.Changes[i].To, p.Changes[i].Path, versionlog.ExpectAny()
			}
			p.Key, judged = versionlog.NewKey(), 1
			if _, err := l.Commit(t.Context(), s.ID, p); err != nil || judged != 2 {
				t.Errorf("back, judged %d times: %v", judged-1, err)
			}
		})
	}
}
