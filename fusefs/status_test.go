package fusefs

import (
	"errors"
	"strings"
	"testing"
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
