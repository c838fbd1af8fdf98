package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// A daemon of root's has no more capabilities than it needs, in any thread, and gets
// none by executing something; it still unmounts, and sees who has a file open.
func TestPrivileges(t *testing.T) {
	p := newPlace(t)
	p.must("store", "create", "notes")
	for _, flags := range [][]string{{"notes"}, {"notes", "--keep"}} {
		dir, pid := p.mount("memory", append(flags, "--owner", "3001")...)
		if len(flags) > 1 { // the keeper starts others, which mount
			pid = harness.Children(t, pid)[0]
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the daemon has %d threads (%v)", len(threads), err)
		}
		for _, thread := range threads {
			if harness.Raced(t) {
				break // a program with C, as the race detector makes it, keeps them
			}
			text, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			const sysAdmin, sysPtrace, bind, readSearch = 1 << 21, 1 << 19, 1 << 10, 1 << 2
			want := fmt.Sprintf("%016x", sysAdmin|sysPtrace|bind|readSearch)
			for _, set := range []string{"CapEff", "CapPrm"} {
				if got := regexp.MustCompile(set + `:\s+(\w+)`).FindStringSubmatch(string(text))[1]; got != want {
					t.Errorf("%v: %s of %s is %s, want %s", flags, set, thread, got, want)
				}
			}
			if !strings.Contains(string(text), "NoNewPrivs:\t1") {
				t.Errorf("%v: %s may gain privileges", flags, thread)
			}
		}
		p.sh(agent, "cd memory/notes; { echo one; bash -c 'echo two'; } > f; : > g; echo three >> f")
		if got := p.must("cat", "notes:/f"); got != "one\ntwo\nthree\n" {
			t.Errorf("the store has %q", got)
		}
		p.must("unmount", "--at", dir)
	}
}
