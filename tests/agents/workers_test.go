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
			cmd := exec.CommandContext(t.Context(), harness.Daemon, "--url", url, "tool", "--store", "notes")
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

// TestBudgetOfBurst: of many calls that a host sends at once exactly as many are done as a
// quest has, in each quest.
func TestBudgetOfBurst(t *testing.T) {
	const quests, burst, calls = 3, 100, 20
	url := newStore(t)
	var lines strings.Builder
	for quest := range quests {
		for i := range burst {
			fmt.Fprintf(&lines, `{"id":%d,"input":{"command":"create","path":"/memories/%d/%d","file_text":"x"}}`+"\n", i, quest, i)
		}
		lines.WriteString(`{"id":"next","control":"reset"}` + "\n")
	}
	cmd := exec.CommandContext(t.Context(), harness.Daemon, "--url", url, "tool", "--store", "notes")
	cmd.Stdin = strings.NewReader(lines.String())
	out, err := cmd.Output()
	if done := strings.Count(string(out), `"is_error":false`); err != nil || done != quests*calls {
		t.Errorf("%d calls are done, want %d: %v", done, quests*calls, err)
	}
	if n := strings.Count(output(t, url, "log", "--json", "notes"), `"command":"create"`); n != quests*calls {
		t.Errorf("%d versions, want %d", n, quests*calls)
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
