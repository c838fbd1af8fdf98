package hostile

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// A session is one mount's: another process that claims it is refused for as long as the mount
// lives, with a keeper as without, and told whose it is. A read-only mount claims nothing.
func TestSessionIsOneMounts(t *testing.T) {
	p := newPlace(t)
	refused := func(at string, args ...string) {
		t.Helper()
		r := p.mneme(0, append([]string{"mount", "notes", "--at", p.path(at)}, args...)...)
		if r.code != 4 || !strings.Contains(r.stderr, "is in use by process ") || !strings.Contains(r.stderr, "user root") {
			t.Errorf("mount with %v: %v\nwant exit code 4, and whose the session is", args, r)
		}
	}
	if r := p.mneme(0, "mount", "notes", "--at", p.path("none"), "--session", "s"); r.code != 3 || p.sh(0, "ls home") != "" {
		t.Errorf("mounting a store that is not there: %v", r)
	}
	p.must("store", "create", "notes")
	for _, first := range [][]string{{"--background"}, {"--background", "--keep"}} {
		dir, pid := p.mount("first", append([]string{"notes", "--session", "s"}, first...)...)
		refused("second", "--session", "s")
		refused("second", "--session", "s", "--background")
		refused("second", "--session", "s", "--background", "--keep")
		reader, _ := p.mount("reader", "notes:ro", "--session", "s")
		p.must("unmount", "--at", reader)
		if len(first) == 1 { // a killed mount no longer has a claim
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for range 1000 {
				if syscall.Kill(pid, 0) != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			p.must("unmount", "--at", dir)
		} else {
			p.must("unmount", "--at", dir)
		}
	}
	second, _ := p.mount("second", "notes", "--session", "s")
	if text := p.sh(0, "cat home/stores/conflicts/sessions/*"); !strings.Contains(text, `"session":"s","uid":0,"user":"root","host":`) {
		t.Errorf("the claim is %q", text)
	}
	p.must("unmount", "--at", second)
}
