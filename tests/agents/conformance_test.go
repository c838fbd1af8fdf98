package agents

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/mcp"
	"mneme/memory"
	"mneme/session"
	"mneme/tests/harness"
	"mneme/tools"
	"mneme/versionlog/memlog"
)

// TestConformance runs the protocol's own suite against the handler. What needs tools, prompts
// and resources of the suite is listed in testdata, and has to fail.
func TestConformance(t *testing.T) {
	node := harness.FindNode(t, lockFile)
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			server := newServer(t)
			web := httptest.NewServer(mcp.Handler(func(*http.Request) (*mcp.Server, error) { return server, nil }, nil))
			defer web.Close()
			expected, err := filepath.Abs(filepath.Join("testdata", "conformance-"+revision+".yml"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), node.Program, filepath.Join(node.Modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
				"server", "--url", web.URL, "--requirements", revision, "--expected-failures", expected, "-o", t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// newServer returns a server of an empty store.
func newServer(t *testing.T) *mcp.Server {
	t.Helper()
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	author := memory.SessionAuthor("s1")
	store, err := lib.Open(context.Background(), info.ID, author)
	if err != nil {
		t.Fatal(err)
	}
	own := session.New(store, &session.Options{ID: "s1", Name: tools.PathName("notes", false)})
	t.Cleanup(own.Close)
	m := tools.New([]tools.Place{{Store: store, Session: own}}, nil)
	server := mcp.New(m, nil)
	t.Cleanup(server.Close)
	return server
}
