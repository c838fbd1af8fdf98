package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestInspector uses `mneme mcp` by the protocol's inspector, in both eras; --strict fails where
// a schema is one that not all models take. Each call takes half a second.
func TestInspector(t *testing.T) {
	node := harness.FindNode(t, lockFile)
	url := newStore(t)
	for _, tc := range []struct {
		name, era string
		args      []string
		want      string
	}{
		{"tools", "modern", []string{"--method", "tools/list", "--strict"}, `"name":"conflicts"`},
		{"a call of 2025", "legacy", []string{"--method", "tools/call", "--tool-name", "memory", "--tool-args-json", `{"command":"view","path":"/memories/a.md"}`}, `     1\tone`},
		{"a resource", "modern", []string{"--method", "resources/read", "--uri", "mneme://notes/a.md"}, `"mimeType":"text/markdown"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := []string{filepath.Join(node.Modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli", harness.Daemon, "--url", url, "mcp", "--store", "notes"}
			cmd := exec.CommandContext(t.Context(), node.Program, append(append(args, tc.args...), "--protocol-era", tc.era, "--format", "json")...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // it keeps secrets there
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v: %s\n%s; want %s", cmd.Args[2:], err, out, tc.want)
			}
		})
	}
}
