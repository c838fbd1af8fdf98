package aws

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestOutageWhileDirty loses DynamoDB while files are open that were written:
// fsync and close fail for as long as it is away, fsync succeeds when the bytes
// are there, and what the end of the mount cannot commit is kept.
func TestOutageWhileDirty(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	_, dynamo := e.OwnServers()
	m := e.Mount(t, "notes")
	m.Sh(t, `for f in closed synced left; do echo before > $f; done`)
	a := m.Agent(t)
	for _, f := range []string{"closed", "synced", "left"} {
		a.Must(t, harness.Call{Op: "open", Path: f, To: f})
		a.Must(t, harness.Call{Op: "read all", To: f})
		a.Must(t, harness.Call{Op: "write at", To: f, Text: "after!"})
	}
	fails := func(c harness.Call) {
		t.Helper()
		if r := a.Do(t, c); r.Errno != syscall.EIO {
			t.Errorf("%v: %v, want %v", c, r.Errno, syscall.EIO)
		}
	}
	holds := func(path, want string) {
		t.Helper()
		if got := e.Must(t, "cat", "notes:/"+path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	dynamo.Stop()
	fails(harness.Call{Op: "sync", To: "synced"})
	fails(harness.Call{Op: "sync", To: "synced"})
	fails(harness.Call{Op: "close", To: "closed"})
	if got := a.Must(t, harness.Call{Op: "read", Path: "closed"}); got != "before\n" {
		t.Errorf("what could not be committed is shown: %q", got)
	}
	dynamo.Start(t)
	harness.AwaitUntil(t, "fsync succeeds", func() bool { return a.Do(t, harness.Call{Op: "sync", To: "synced"}).OK() })
	holds("synced", "after!\n")
	holds("closed", "before\n")

	dynamo.Stop()
	m.Over = true
	_ = syscall.Kill(m.PID, syscall.SIGTERM)
	if !m.Wait(harness.MountPatience + 30*time.Second) {
		t.Fatalf("the daemon lives on after SIGTERM:\n%s", m.Goroutines())
	}
	dynamo.Start(t)
	holds("left", "before\n")
	list := harness.DecodeLines[harness.KeptConflict](t, e.Must(t, "conflicts", "list", "notes", "--json"))
	if len(list) != 1 || list[0].Path != "/left" {
		t.Fatalf("kept: %+v", list)
	}
	if out := e.Must(t, "conflicts", "diff", "notes", "1"); !strings.Contains(out, "+after!\n") {
		t.Errorf("kept:\n%s", out)
	}
}
