package tests

import (
	"testing"
	"time"
)

// TestProcessesOutOfSight holds that a redirection is one version, and that nobody
// finds the file empty meanwhile, where the daemon does not see the shell.
func TestProcessesOutOfSight(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.unseen = true
	m := e.mount(t, "notes")
	out := m.sh(t, `echo one > f
{ mneme cat notes:/f >&2; echo one and two; } 2>&1 > f`)
	if out != "one\n" {
		t.Errorf("while it was written, the store had %q", out)
	}
	e.checkHistory(t, "notes:/f", m.session, "created modified")
	m.sh(t, `: > f; touch made`)
	for _, place := range []string{"notes:/f", "notes:/made"} { // when the kernel lets go of the handle
		deadline := time.Now().Add(mountPatience)
		for r := e.mneme("cat", place); r.code != 0 || r.stdout != ""; r = e.mneme("cat", place) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not empty: %v", place, r)
			}
		}
	}
	e.checkHistory(t, "notes:/f", m.session, "created modified modified")
	e.checkHistory(t, "notes:/made", m.session, "created")
}
