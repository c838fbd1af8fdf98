package tests

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOutageWhileDirty loses DynamoDB while files are open that were written:
// fsync and close fail for as long as it is away, fsync succeeds when the bytes
// are there, and what the end of the mount cannot commit is kept.
func TestOutageWhileDirty(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, dynamo := e.ownServers()
	m := e.mount(t, "notes")
	m.sh(t, `for f in closed synced left; do echo before > $f; done`)
	a := m.agent(t)
	for _, f := range []string{"closed", "synced", "left"} {
		a.must(t, call{Op: "open", Path: f, To: f})
		a.must(t, call{Op: "read all", To: f})
		a.must(t, call{Op: "write at", To: f, Text: "after!"})
	}
	fails := func(c call) {
		t.Helper()
		if r := a.do(t, c); r.Errno != syscall.EIO {
			t.Errorf("%v: %v, want %v", c, r.Errno, syscall.EIO)
		}
	}
	holds := func(path, want string) {
		t.Helper()
		if got := e.must(t, "cat", "notes:/"+path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	dynamo.Stop()
	fails(call{Op: "sync", To: "synced"})
	fails(call{Op: "sync", To: "synced"})
	fails(call{Op: "close", To: "closed"})
	if got := a.must(t, call{Op: "read", Path: "closed"}); got != "before\n" {
		t.Errorf("what could not be committed is shown: %q", got)
	}
	dynamo.Start(t)
	awaitUntil(t, "fsync succeeds", func() bool { return a.do(t, call{Op: "sync", To: "synced"}).ok() })
	holds("synced", "after!\n")
	holds("closed", "before\n")

	dynamo.Stop()
	m.over = true
	_ = syscall.Kill(m.pid, syscall.SIGTERM)
	if !m.wait(mountPatience + 30*time.Second) {
		t.Fatalf("the daemon lives on after SIGTERM:\n%s", m.goroutines())
	}
	dynamo.Start(t)
	holds("left", "before\n")
	list := decodeLines[keptConflict](t, e.must(t, "conflicts", "list", "notes", "--json"))
	if len(list) != 1 || list[0].Path != "/left" {
		t.Fatalf("kept: %+v", list)
	}
	if out := e.must(t, "conflicts", "diff", "notes", "1"); !strings.Contains(out, "+after!\n") {
		t.Errorf("kept:\n%s", out)
	}
}
