package use

import (
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// TestEndOfMountedStore holds that a store which a mount on this machine shows
// is neither deleted nor archived without being told to, even when the mount
// does not answer. One that only reads does not mind an archive.
func TestEndOfMountedStore(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes", "docs:ro")
	e.Store("other")
	m.Sh(t, "echo one > f")
	refused := func(store, command, why string) {
		t.Helper()
		if r := e.Mneme("store", command, store, "--yes"); r.Code != 4 || !strings.Contains(r.Stderr, m.At) || !strings.Contains(r.Stderr, why) {
			t.Errorf("%s of mounted store %s: %v", command, store, r)
		}
	}
	refused("notes", "delete", "--force")
	refused("docs", "delete", "--force")
	refused("notes", "archive", "--force")
	e.Must(t, "store", "archive", "docs", "--yes")
	e.Must(t, "store", "delete", "other", "--yes")
	if e.Remote == nil { // elsewhere it cannot be told what a silent mount shows
		if err := syscall.Kill(m.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		refused("notes", "delete", "does not answer")
		if err := syscall.Kill(m.PID, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	e.Must(t, "store", "archive", "notes", "--yes", "--force")
	m.Stop(t)
	if out := e.Must(t, "cat", "notes:/f"); out != "one\n" {
		t.Errorf("the store holds %q", out)
	}
	if out := e.Must(t, "store", "delete", "notes", "--yes"); out != "Store notes is deleted, with its history.\n" {
		t.Errorf("delete says %q", out)
	}
}
