package fusefs

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStatusKeepsItsLines holds that nothing which a store, a session or an error
// is called makes a line of .mneme/status, or hides in one.
func TestStatusKeepsItsLines(t *testing.T) {
	r := newRig(t)
	r.s.fs.opts.Session = "a\naccess: read-only"
	r.s.fs.opts.Status = func() []string { return []string{"url: file:///x\u3164\nstate: ok"} }
	r.s.degraded = errors.New("lost\n\x1b[2J" + strings.Repeat("x", 1<<20))
	for line := range strings.Lines(string(r.s.statusText())) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case key == "session" && value != "a; access: read-only",
			key == "url" && value != `file:///x\u3164; state: ok`,
			key == "state" && (!strings.HasPrefix(value, `degraded: lost; \x1b[2Jxxx`) || len(value) > 10000),
			key == "as-of", // of a mount of the past alone
			key == "access" && value != "read-write":
			t.Errorf("%.200q", line)
		}
	}
}

// TestStatusNamesWhatIsHeld: while a program holds a directory, the store's status says so, and of
// which.
func TestStatusNamesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "/he ld/f")
		r.keepNotices()
		r.must(r.s.tree.Walk(t.Context()))
		r.readOnce("/he ld/f")
		free := make(chan struct{})
		r.give(&fakeKernel{before: func(string) { <-free }})
		state := func() string {
			synctest.Wait()
			_, after, _ := strings.Cut(string(r.s.statusText()), "state: ")
			line, _, _ := strings.Cut(after, "\n")
			return line
		}
		r.notices().Name(r.s.tree.FindLocked("/he ld").ID(), "f")
		if got := state(); got != "ok" {
			t.Errorf("at once: %s", got)
		}
		time.Sleep(5 * time.Second)
		if got, want := state(), `degraded: a program holds "/he ld" for 5s; until it goes on, changes of other sessions show late there, and nowhere else`; got != want {
			t.Errorf("state: %s, want %s", got, want)
		}
		close(free)
		if got := state(); got != "ok" {
			t.Errorf("afterwards: %s", got)
		}
	})
}
