package server

import (
	"net/http"
	"strings"
	"testing"

	"mneme/gateway/wire"
	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
)

// TestGuardCountsDeletions of a credential in a store, by whichever face they come, and apart
// from those of another.
func TestGuardCountsDeletions(t *testing.T) {
	r := newRig(t, Options{})
	two := int64(2)
	_, err := r.lib.UpdateStore(t.Context(), r.store.ID, versionlog.StoreUpdate{GuardDeletesPerMinute: &two}, r.opts.Author.Actor)
	r.must(err)
	st, err := r.lib.Open(t.Context(), r.store.ID, &memory.Author{Actor: r.opts.Author.Actor})
	r.must(err)
	write := func(path string) string {
		t.Helper()
		v, err := st.Write(t.Context(), path, []byte("x"), versionlog.ExpectAny())
		r.must(err)
		return v.MemoryID
	}
	removal, err := wire.EncodeProposal(&versionlog.Proposal{
		Key: versionlog.NewKey(), Fresh: true, Actor: r.opts.Author.Actor,
		Changes: []versionlog.Change{{Action: versionlog.Remove, Path: "/c.md", Expect: versionlog.ExpectExists()}},
	})
	r.must(err)
	memories := "/v1/memory_stores/" + r.store.ID + "/memories/"
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	for name, credential := range map[string]string{"token": r.token(secret, access.Write), "key": secret} {
		for _, path := range []string{"/a.md", "/b.md"} {
			if w := r.ask("DELETE", memories+write(path), "", credential); w.Code != 200 {
				t.Fatalf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		for face, ask := range map[string]struct {
			method, path, body string
			status             int
			says               string
		}{
			"api":     {"DELETE", memories, "", 403, "permission_error"},
			"batch":   {"POST", "/v1/mneme/stores/" + r.store.ID + "/batch", `{"changes":[{"action":"remove","path":"/c.md"}]}`, 403, "permission_error"},
			"tool":    {"POST", "/v1/mneme/tools/memory", `{"command":"delete","path":"/memories/c.md"}`, 200, "holds back"},
			"mcp":     {"POST", "/mcp", mcpCall("memory", `{"command":"delete","path":"/memories/c.md"}`), 200, "holds back"},
			"gateway": {"POST", wire.Prefix + wire.OpCommit, string(removal), 403, "\"guard\""},
		} {
			id := write("/c.md")
			if face == "api" {
				ask.path += id
			}
			w := r.ask(ask.method, ask.path, ask.body, credential, asAgent, func(q *http.Request) { q.Header.Set(wire.StoreHeader, r.store.ID) })
			if w.Code != ask.status || !strings.Contains(w.Body.String(), ask.says) {
				t.Errorf("%s, %s: %d %s", name, face, w.Code, w.Body)
			}
			if _, err := st.Head(t.Context(), "/c.md"); err != nil {
				t.Errorf("%s, %s: %v", name, face, err)
			}
		}
	}
}
