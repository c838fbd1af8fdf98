package session

import (
	"fmt"
	"testing"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// TestLostCall: of every call that changes something the next one about its paths finds out what
// became of it, so that the session is not in conflict with itself.
func TestLostCall(t *testing.T) {
	add := func(seen Seen) ([]byte, error) { return append(seen.Content, "+edit\n"...), nil }
	put := []memory.Change{{Action: versionlog.Put, Path: "/d/f", Content: []byte("batch\n"), Expect: versionlog.ExpectExists()}}
	for name, test := range map[string]struct {
		call func(*rig) error
		at   string // of the memory that is there then; "" is none
		want string
	}{
		"write blindly": {func(r *rig) error { _, err := r.s.Write(t.Context(), "/d/g", []byte("blind\n"), nil); return err }, "/d/g", "blind\n"},
		"edit":          {func(r *rig) error { _, err := r.s.Edit(t.Context(), "/d/f", add, nil); return err }, "/d/f", "/d/f+edit\n"},
		"batch":         {func(r *rig) error { _, err := r.s.Batch(t.Context(), put, nil); return err }, "/d/f", "batch\n"},
		"rename":        {func(r *rig) error { _, err := r.s.Rename(t.Context(), "/d", "/e", nil); return err }, "/e/f", "/d/f"},
		"remove":        {func(r *rig) error { _, err := r.s.Remove(t.Context(), "/d/f", nil); return err }, "", ""},
		"remove all":    {func(r *rig) error { _, err := r.s.RemoveTree(t.Context(), "/", nil); return err }, "", ""},
	} {
		for _, fate := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
			t.Run(fmt.Sprint(name, " ", fate), func(t *testing.T) {
				r := direct(t, keeping(t), "/d/f", "/d/g")
				r.mustRead("/d/f", "/d/f")
				r.log.SetFates(fate)
				wantErr(t, test.call(r), errDown)
				switch {
				case fate == logfault.Unmade:
					r.mustRead("/d/f", "/d/f")
				case test.at != "":
					r.mustRead(test.at, test.want)
					r.mustWrite(test.at, "mine")
				}
				if fate == logfault.Unmade || test.at != "/d/f" {
					r.mustWrite("/d/f", "anew")
				}
				if test.call(r); len(r.s.lostCalls) > 0 {
					t.Errorf("it is still asked what became of %v", r.s.lostCalls)
				}
				r.wantKept()
				r.wantSettled()
			})
		}
	}
}

// TestLostCallFails: what became of a call and cannot be found out yet is an error of the next.
func TestLostCallFails(t *testing.T) {
	r := direct(t, keeping(t), "/f")
	r.log.SetFates(logfault.Unmade, logfault.Unmade)
	_, err := r.s.Remove(t.Context(), "/f", nil)
	wantErr(t, err, errDown)
	_, err = r.s.Write(t.Context(), "/f", []byte("mine"), nil)
	wantErr(t, err, errDown)
	r.theirs("/f", "theirs")
	r.theirs("/g", "theirs")
	r.mustWrite("/f", "mine")
	r.mustWrite("/g", "mine")
	r.wantText("/f", "mine")
	r.wantSettled()
}
