package server

import (
	"net/http"
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
)

// TestBudgetOfChunkedBody: a body that does not say how long it is passes the budget of bytes at no face.
func TestBudgetOfChunkedBody(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	c, err := r.registry.Caller(t.Context(), secret)
	r.must(err)
	before := r.state()
	long := strings.Repeat("x", 2000)
	for path, body := range map[string]string{
		"/v1/memory_stores/" + r.store.ID + "/memories": `{"path":"/a.md","content":"` + long + `"}`,
		"/v1/mneme/stores/" + r.store.ID + "/batch":     `{"changes":[{"action":"put","path":"/a.md","content":"` + long + `"}]}`,
		"/v1/mneme/sessions/revoke":                     `{"token":"` + long + `"}`,
		"/mcp":                                          `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"path":"/memories/a.md","text":"` + long + `"}}}`,
		"/v1/mneme/tools/memory":                        `{"command":"create","path":"/memories/a.md","file_text":"` + long + `"}`,
		"/v1/mneme/plugin/remember":                     `{"thread_id":"t","turn_id":"1","entries":[{"text":"` + long + `"}]}`,
		wire.Prefix + wire.OpHead:                       `{"store":"` + r.store.ID + `","path":"/` + long + `"}`,
	} {
		token, _, _, err := r.registry.NewToken(t.Context(), c, access.Session{Grants: map[string]access.Right{r.store.ID: access.Write}, MaxBytes: 1000})
		r.must(err)
		w := r.ask("POST", path, body, token, asAgent, func(q *http.Request) { q.ContentLength = -1 })
		if w.Code != 429 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
			continue
		}
		if strings.HasPrefix(path, wire.Prefix) {
			if err := wire.DecodeError(w.Body.Bytes()); errkind.Of(err) != errkind.OverQuota {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if kind := r.refusal(w.Body.Bytes(), w.Header()); kind != "rate_limit_error" || w.Header().Get("X-Should-Retry") != "false" || !strings.Contains(w.Body.String(), "1000 bytes are allowed") {
			t.Errorf("%s: %v %s", path, w.Header(), w.Body)
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}
