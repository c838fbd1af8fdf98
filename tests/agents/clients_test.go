package agents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/tests/harness"
)

// TestClients does the same by each of the protocol's TypeScript clients, with `mneme mcp` as a
// child of theirs: node/client.mjs. All have the same to say.
func TestClients(t *testing.T) {
	node := harness.FindNode(t, lockFile)
	want, err := os.ReadFile(filepath.Join("testdata", "clients.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sdk", "modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), node.Program, node.Beside(t, filepath.Join("node", "client.mjs")), kind, harness.Daemon, newStore(t))
			cmd.Stderr = os.Stderr
			got, err := cmd.Output()
			if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
				t.Errorf("%v: it says (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestClientOfServer does the same by HTTP, where no lost texts are kept, in the session of a token;
// the other session is one of the gateway.
func TestClientOfServer(t *testing.T) {
	node := harness.FindNode(t, lockFile)
	data, err := os.ReadFile(filepath.Join("testdata", "clients.txt"))
	if err != nil {
		t.Fatal(err)
	}
	e := harness.NewEnv(t)
	e.Store("notes")
	e.MustIn(t, "one\n", "write", "notes:/a.md")
	var key struct{ ID, Secret string }
	var session struct{ Token string }
	said(t, e, &key, "key", "create", "agents", "--grant=notes")
	said(t, e, &session, "token", "agents", "--store=notes", "--session=s1")
	url := e.Serve(t, harness.AnyPort)
	want := strings.NewReplacer(`"conflicts",`, "", "conflicts: \"There are no conflicts.\"\n", "").Replace(string(data))
	cmd := exec.CommandContext(t.Context(), node.Program, node.Beside(t, filepath.Join("node", "client.mjs")), "modern", harness.Binary, url, session.Token)
	cmd.Env, cmd.Stderr = append(os.Environ(), "MNEME_TOKEN="+session.Token), os.Stderr
	got, err := cmd.Output()
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v: it says (-want +got):\n%s", err, diff)
	}
}

// said runs a command with --json and decodes what it says.
func said(t *testing.T, e *harness.Env, into any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.Must(t, append(args, "--json")...)), into); err != nil {
		t.Fatal(err)
	}
}

// newStore returns the URL of stores on this machine, with a store notes that has a file.
func newStore(t *testing.T) string {
	t.Helper()
	url := "file://" + filepath.Join(t.TempDir(), "data")
	mneme(t, url, "", "store", "create", "notes")
	mneme(t, url, "one\n", "write", "notes:/a.md")
	return url
}

// mneme runs the command.
func mneme(t *testing.T, url, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Binary, append([]string{"--url", url}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mneme %v: %v\n%s", args, err, out)
	}
}
