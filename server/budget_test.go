package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/agent"
	"mneme/tools"
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
		if path == agent.ToolPath {
			r.wantUsedUp(w, "1000 bytes")
			continue
		}
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

// TestBudgetOfTool: a call of the tool that passes a budget is answered in the tool's form, so that
// the model reads it.
func TestBudgetOfTool(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	c, err := r.registry.Caller(t.Context(), secret)
	r.must(err)
	for name, s := range map[string]access.Session{"1 memory call": {MaxCalls: 1}, "200 bytes": {MaxBytes: 200}} {
		s.Grants = map[string]access.Right{r.store.ID: access.Read}
		token, _, _, err := r.registry.NewToken(t.Context(), c, s)
		r.must(err)
		view := func() *httptest.ResponseRecorder {
			return r.ask("POST", agent.ToolPath, `{"command":"view","path":"/memories"}`, token)
		}
		if w := view(); w.Code != 200 || !strings.Contains(w.Body.String(), `"is_error":false`) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		_ = view()
		r.wantUsedUp(view(), name)
	}
}

// wantUsedUp checks the answer to a call of the tool whose budget is used up.
func (r *rig) wantUsedUp(w *httptest.ResponseRecorder, budget string) {
	r.Helper()
	var a tools.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 200 || !a.IsError || a.Kind != "over_quota" || a.Retry != "never" ||
		!strings.Contains(w.Body.String(), "The budget of "+budget+" for this quest is used up; nothing was done.") {
		r.Errorf("%d %s, want that the budget of %s is used up", w.Code, w.Body, budget)
	}
}
