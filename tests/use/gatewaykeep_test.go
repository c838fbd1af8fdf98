package use

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// killsWhileItWrites has a file open that it has written to, renames a file, and kills a process.
const killsWhileItWrites = `
import os, sys
log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, b"kept\n")
os.rename(sys.argv[1], sys.argv[2])
os.kill(int(sys.argv[3]), 9)
`

// TestGatewayKeepWaits: while the server cannot be reached, or the credential is not valid, no
// process can take over a mount. It stays all the same, for as long as that lasts, and then
// continues with all that was being written.
func TestGatewayKeepWaits(t *testing.T) {
	harness.NeedTools(t, "python3")
	t.Parallel()
	for what, how := range map[string]struct {
		begin, end [2]string // what is renamed, in the directory of the test
		says       string
		times      int
	}{
		"credential": {[2]string{"bad", "token"}, [2]string{"good", "token"}, "does not accept the credential", 7},
		"server":     {[2]string{"s", "away"}, [2]string{"away", "s"}, "its stores cannot be reached", 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes")
			s := serveStores(t, e)
			s.key("host", "notes:write")
			token := s.token("host", "agent-7", "notes")
			s.useFile()(token)
			in := func(name string) string { return filepath.Join(e.Dir, name) }
			for name, text := range map[string]string{"good": token, "bad": "nobody"} {
				if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			e.Sessionless = true
			m := e.Mount(t, "notes", "--keep")
			m.Sh(t, `echo one > f`)
			script := m.Background(t, fmt.Sprintf(`python3 -c '%s' '%s' '%s' %d
cat f .mneme/conflicts/*/yours; echo two > f; cat f`, killsWhileItWrites, in(how.begin[0]), in(how.begin[1]), harness.Children(t, m.PID)[0]))
			harness.AwaitUntil(t, strconv.Itoa(how.times)+" times in vain", func() bool {
				if m.Wait(0) {
					t.Fatalf("the mount has ended: %v\n%s", m.Err, m.Stderr)
				}
				return strings.Count(m.Stderr.String(), how.says) >= how.times
			})
			if err := os.Rename(in(how.end[0]), in(how.end[1])); err != nil {
				t.Fatal(err)
			}
			if r := script(); r.Stdout != "one\nkept\ntwo\n" {
				t.Errorf("it goes on with %v", r)
			}
		})
	}
}

// TestGatewayKeepEnds: a mount that no process can take over ends when it is told to, or was
// unmounted.
func TestGatewayKeepEnds(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(t *testing.T, m *harness.Mount){
		"told":      func(t *testing.T, m *harness.Mount) { m.Env.Mneme("unmount", "--at", m.At) },
		"unmounted": func(_ *testing.T, m *harness.Mount) { m.Abort() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, _, put := serveNotes(t)
			e.Sessionless = true
			m := e.Mount(t, "notes", "--keep")
			m.Sh(t, `echo one > f`)
			put("nobody")
			script := m.Background(t, `kill -9 $(cat /proc/`+strconv.Itoa(m.PID)+`/task/*/children); cat f`)
			harness.AwaitUntil(t, "nobody takes over", func() bool { return strings.Contains(m.Stderr.String(), "its stores cannot be reached") })
			m.Over = true
			end(t, m)
			if !m.Wait(harness.MountPatience) || m.Err == nil || !strings.Contains(m.Stderr.String(), "what was being written is lost") {
				t.Errorf("the keeper has ended: %v", m.Err)
			}
			if r := script(); r.Code == 0 {
				t.Errorf("a file that nobody serves was read: %v", r)
			}
			if left := harness.MountsBelow(m.At); len(left) > 0 {
				t.Errorf("still mounted: %v", left)
			}
		})
	}
}
