package agents

import (
	"fmt"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestOneFsyncOfEdit holds that an edit is durable when it is answered, by one fsync. All requests to
// mneme mcp have the same id, one after the other.
func TestOneFsyncOfEdit(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "strace")
	const edits = 20
	for _, face := range []string{"tool", "mcp"} {
		e := harness.NewEnv(t)
		e.Store("notes")
		e.MustIn(t, "at 0\n", "write", "notes:/counter.md")
		l := e.Lines(t, harness.Daemon, face, "--store=notes", "--calls=0")
		edit := toolCall
		if face == "mcp" {
			l.Ask(t, strings.TrimSuffix(hello, "\n"))
			edit = func(input string) string { return call("memory", input) }
		}
		to := func(n int) {
			answer := l.Ask(t, edit(fmt.Sprintf(`{"command":"str_replace","path":"/memories/counter.md","old_str":"at %d\n","new_str":"at %d\n"}`, n-1, n)))
			if !strings.Contains(answer, fmt.Sprintf("at %d", n)) {
				t.Fatalf("%s: %s", face, answer)
			}
		}
		to(1) // the write-ahead log is open then
		made := e.Fsyncs(t, l.PID, func() {
			for n := range edits {
				to(n + 2)
			}
		})
		// The log is emptied when it has grown, which takes two more, and begun again with one.
		if made < edits || made > edits+3 {
			t.Errorf("%s: %d fsyncs for %d edits", face, made, edits)
		}
		l.End(t)
	}
}
