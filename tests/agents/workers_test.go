package agents

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"mneme/tests/harness"
)

// TestManyToolProcesses edits one file in many processes at once, each of which is a session: every
// edit is in the file, and in the history once.
func TestManyToolProcesses(t *testing.T) {
	const processes, edits = 20, 5
	url := newStore(t)
	var before, after strings.Builder
	for p := range processes {
		for i := range edits {
			fmt.Fprintf(&before, "open %d.%d\n", p, i)
			fmt.Fprintf(&after, "done %d.%d\n", p, i)
		}
	}
	mneme(t, url, before.String(), "write", "notes:/tasks.md")
	var all sync.WaitGroup
	for p := range processes {
		all.Go(func() {
			var calls strings.Builder
			for i := range edits {
				fmt.Fprintf(&calls, `{"id":%d,"input":{"command":"str_replace","path":"/memories/tasks.md","old_str":"open %d.%d\n","new_str":"done %d.%d\n"}}`+"\n", i, p, i, p, i)
			}
			cmd := exec.CommandContext(t.Context(), harness.Binary, "--url", url, "tool", "--store", "notes")
			cmd.Stdin = strings.NewReader(calls.String())
			if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), `"is_error":false`) != edits {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
	all.Wait()
	if text := output(t, url, "cat", "notes:/tasks.md"); text != after.String() {
		t.Errorf("the file is\n%s", text)
	}
	if n := strings.Count(output(t, url, "log", "--json", "notes:/tasks.md"), "\n"); n != 1+processes*edits {
		t.Errorf("%d versions, want %d", n, 1+processes*edits)
	}
}

// output returns what the command prints.
func output(t *testing.T, url string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), harness.Binary, append([]string{"--url", url}, args...)...).Output()
	if err != nil {
		t.Fatalf("mneme %v: %v", args, err)
	}
	return string(out)
}
