package agents

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"mneme/tests/harness"
)

// TestConformance runs the protocol's own suite against the server. The tests that need tools,
// prompts and resources of the suite are listed in testdata, and must fail.
func TestConformance(t *testing.T) {
	node := harness.FindNode(t, lockFile)
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			web := newWeb(t, func(r *http.Request, token string) { r.Header.Set("Authorization", "Bearer "+token) }) // the suite has none
			expected, err := filepath.Abs(filepath.Join("testdata", "conformance-"+revision+".yml"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), node.Program, filepath.Join(node.Modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
				"server", "--url", web.url+"/mcp", "--requirements", revision, "--expected-failures", expected, "-o", t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
