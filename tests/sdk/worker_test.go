package sdk

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestWorker has the worker of the SDK synchronise a store in which there are memories that are not
// text. It takes those for empty files, and would make them empty, or what a program wrote to one.
func TestWorker(t *testing.T) {
	s := serve(t)
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := s.mneme(args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("mneme %v: %v: %v", args, err, cmd.Stderr)
		}
		return string(out)
	}
	var store struct{ ID string }
	if err := json.Unmarshal([]byte(run("", "store", "create", "notes", "--content", "any")), &store); err != nil {
		t.Fatal(err)
	}
	const binary = "\xff\xfe\x00bin"
	run(binary, "write", "notes:/bin.dat")
	run(binary, "write", "notes:/written.bin")
	run("one\n", "write", "notes:/note.md")

	n := harness.FindNode(t, filepath.Join("..", "agents", "node", "package-lock.json"))
	cmd := exec.CommandContext(t.Context(), n.Program, n.Beside(t, "worker.mjs"), "anthropic-sdk-1.13", s.url.String(), s.secret, store.ID, t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]string{"/bin.dat": binary, "/written.bin": binary, "/note.md": "one\ntwo\n"} {
		var now struct {
			Content string
			Base64  []byte `json:"content_base64"`
		}
		if err := json.Unmarshal([]byte(run("", "cat", "notes:"+path)), &now); err != nil {
			t.Fatal(err)
		}
		if got := now.Content + string(now.Base64); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
