package tests

import (
	"strings"
	"syscall"
	"testing"
)

// TestEndOfMountedStore holds that a store which a mount on this machine shows
// is neither deleted nor archived without being told to, even when the mount
// does not answer. One that only reads does not mind an archive.
func TestEndOfMountedStore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes", "docs:ro")
	e.store("other")
	m.sh(t, "echo one > f")
	refused := func(store, command, why string) {
		t.Helper()
		if r := e.mneme("store", command, store, "--yes"); r.code != 4 || !strings.Contains(r.stderr, m.at) || !strings.Contains(r.stderr, why) {
			t.Errorf("%s of mounted store %s: %v", command, store, r)
		}
	}
	refused("notes", "delete", "--force")
	refused("docs", "delete", "--force")
	refused("notes", "archive", "--force")
	e.must(t, "store", "archive", "docs", "--yes")
	e.must(t, "store", "delete", "other", "--yes")
	if e.remote == nil { // elsewhere it cannot be told what a silent mount shows
		if err := syscall.Kill(m.pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		refused("notes", "delete", "does not answer")
		if err := syscall.Kill(m.pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	e.must(t, "store", "archive", "notes", "--yes", "--force")
	m.stop(t)
	if out := e.must(t, "cat", "notes:/f"); out != "one\n" {
		t.Errorf("the store holds %q", out)
	}
	if out := e.must(t, "store", "delete", "notes", "--yes"); out != "Store notes is deleted, with its history.\n" {
		t.Errorf("delete says %q", out)
	}
}
