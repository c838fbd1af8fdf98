package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/server/access"
	"mneme/server/agent"
	"mneme/versionlog"
)

// asAgent has a request look as those of agents do.
func asAgent(q *http.Request) {
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
}

// mcpCall is a call of a tool.
func mcpCall(name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)
}

// writes are how each face is asked to write something of a name to the only store.
var writes = map[string]func(name string) (path, body string){
	"mcp": func(name string) (string, string) {
		return "/mcp", mcpCall("write", `{"path":"/memories/`+name+`.md","text":"x"}`)
	},
	"tool": func(name string) (string, string) {
		return "/v1/mneme/tools/memory", `{"command":"create","path":"/memories/` + name + `.md","file_text":"x"}`
	},
	"plugin": func(name string) (string, string) {
		return "/v1/mneme/plugin/remember", `{"thread_id":"t","turn_id":"` + name + `","entries":[{"text":"x"}]}`
	},
}

// TestAgentsWrite in the name of the session and key of their credential, as far as it goes, and
// hear of no other store.
func TestAgentsWrite(t *testing.T) {
	for face, write := range writes {
		t.Run(face, func(t *testing.T) {
			r := newRig(t, Options{})
			_, err := r.lib.CreateStore(t.Context(), "plans", nil)
			r.must(err)
			st, err := r.lib.Open(t.Context(), r.store.ID, nil)
			r.must(err)
			secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
			key, err := r.registry.Caller(t.Context(), secret)
			r.must(err)
			for name, by := range map[string]struct{ credential, session string }{"token": {r.token(secret, access.Write), "sess-1"}, "key": {secret, ""}} {
				path, body := write(name)
				w := r.ask("POST", path, body, by.credential, asAgent, func(q *http.Request) {
					q.Header.Set("X-Session-Id", "other")
					q.Header.Set("Mcp-Session-Id", "other")
				})
				if w.Code != 200 {
					t.Fatalf("%s: %d %s", name, w.Code, w.Body)
				}
				tip, err := st.Tip(t.Context())
				r.must(err)
				c, err := st.Commit(t.Context(), tip.Seq)
				r.must(err)
				actor := key.Actor
				if by.session != "" {
					actor = versionlog.Actor{Kind: versionlog.ActorSession, ID: by.session}
				}
				if len(c.Versions) != 1 || !strings.Contains(c.Versions[0].Path, name) || c.Actor != actor || c.Session != by.session {
					t.Errorf("%s: %+v; %s", name, c, w.Body)
				}
			}
			before, err := st.Tip(t.Context())
			r.must(err)
			path, body := write("refused")
			w := r.ask("POST", path, body, r.token(secret, access.Read), asAgent)
			if after, err := st.Tip(t.Context()); err != nil || after != before || w.Code != 200 {
				t.Errorf("a token that reads has written: %v, %d %s", err, w.Code, w.Body)
			}
			for _, store := range []string{"plans", "none"} {
				w := r.ask("POST", path+"?store="+store, body, secret, asAgent)
				if w.Code != 404 || face != "mcp" && !strings.Contains(w.Body.String(), `"not_found_error"`) {
					t.Errorf("the store %s: %d %s", store, w.Code, w.Body)
				}
			}
			other := r.key(access.None, map[string]access.Right{"memstore_x": access.Admin})
			if w := r.ask("POST", path, body, other, asAgent); w.Code != 404 || strings.Contains(w.Body.String(), "notes") {
				t.Errorf("a key of no store: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestTokensAreStrict: an agent with a token replaces only what it has viewed, one with a key anything.
func TestTokensAreStrict(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	token := r.token(secret, access.Write)
	st, err := r.lib.Open(t.Context(), r.store.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "x"}})
	r.must(err)
	_, err = st.Write(t.Context(), "/a.md", []byte("theirs"), versionlog.ExpectAbsent())
	r.must(err)
	write := func(text string) string {
		return mcpCall("write", fmt.Sprintf(`{"path":"/memories/a.md","text":%q}`, text))
	}
	for _, step := range []struct{ credential, call, holds string }{
		{token, write("mine"), "theirs"},
		{token, mcpCall("read", `{"path":"/memories/a.md"}`), "theirs"},
		{token, write("mine"), "mine"},
		{secret, write("by a key"), "by a key"},
	} {
		w := r.ask("POST", "/mcp", step.call, step.credential, asAgent)
		if _, data, err := st.Read(t.Context(), "/a.md"); err != nil || string(data) != step.holds {
			t.Errorf("after %s it is %q, %v; %s", step.call, data, err, w.Body)
		}
	}
}

// TestAgentsSee has what an agent asks for without a path name only the stores that it sees.
func TestAgentsSee(t *testing.T) {
	r := newRig(t, Options{})
	handbook, err := r.lib.CreateStore(t.Context(), "handbook", nil)
	r.must(err)
	_, err = r.lib.CreateStore(t.Context(), "plans", nil)
	r.must(err)
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write, handbook.ID: access.Read})
	for _, tc := range []struct{ name, path, body string }{
		{"the tool", "/v1/mneme/tools/memory", `{"command":"view","path":"/memories"}`},
		{"resources", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`},
		{"the prompt", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"note"}}`},
		{"a list", "/mcp", mcpCall("list", `{}`)},
		{"health", "/v1/mneme/plugin/health", ""},
	} {
		method := "POST"
		if tc.body == "" {
			method = "GET"
		}
		w := r.ask(method, tc.path, tc.body, secret, asAgent)
		if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, "notes") || !strings.Contains(text, "handbook") || strings.Contains(text, "plans") {
			t.Errorf("%s: %d %s", tc.name, w.Code, text)
		}
	}
	for _, store := range []string{"plans", "none"} {
		w := r.ask("POST", "/v1/mneme/tools/memory", `{"command":"view","path":"/memories/`+store+`"}`, secret)
		if want := `{"content":"The path /memories/` + store + ` does not exist.`; !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("the path of a store that is not seen: %s", w.Body)
		}
	}
	w := r.ask("POST", "/v1/mneme/tools/memory?store="+handbook.ID, `{"command":"create","path":"/memories/a.md","file_text":"x"}`, secret)
	if !strings.Contains(w.Body.String(), `"is_error":true,"kind":"read_only"`) {
		t.Errorf("a store that is read: %s", w.Body)
	}
	w = r.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, secret, asAgent)
	if text := w.Body.String(); !strings.Contains(text, `"name":"write"`) || strings.Contains(text, `"name":"conflicts"`) { // nothing is kept here
		t.Errorf("the tools: %s", text)
	}
}

// TestAgentsRemember: the server remembers the versions that a credential has viewed, from
// one request to the next and from one face to another, and does not use those of another
// credential.
func TestAgentsRemember(t *testing.T) {
	r := newRig(t, Options{})
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	_, err = st.Write(t.Context(), "/a.md", []byte("one\n"), versionlog.ExpectAbsent())
	r.must(err)
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	token, other := r.token(secret, access.Write), r.token(secret, access.Write)
	tool := func(credential, input string) string {
		t.Helper()
		w := r.ask("POST", "/v1/mneme/tools/memory", input, credential)
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	if w := r.ask("POST", "/mcp", mcpCall("read", `{"path":"/memories/a.md"}`), token, asAgent); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	_, err = st.Write(t.Context(), "/a.md", []byte("two\n"), versionlog.ExpectAny())
	r.must(err)
	const insert = `{"command":"insert","path":"/memories/a.md","insert_line":1,"insert_text":"x\n"}`
	if got := tool(token, insert); !strings.Contains(got, `"kind":"conflict"`) {
		t.Errorf("a line of what was there before: %s", got)
	}
	if got := tool(other, insert); !strings.Contains(got, `"is_error":false`) {
		t.Errorf("an agent that has viewed nothing: %s", got)
	}
}

// TestAgentsAsk has a question to the user of an agent answered at another server.
func TestAgentsAsk(t *testing.T) {
	r := newRig(t, Options{})
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	for _, path := range []string{"/d/1.md", "/d/2.md"} {
		_, err = st.Write(t.Context(), path, []byte("x"), versionlog.ExpectAbsent())
		r.must(err)
	}
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	token, other := r.token(secret, access.Write), r.token(secret, access.Write)
	second, err := New(t.Context(), r.lib, &r.opts)
	r.must(err)
	defer second.Close()
	deletes := func(s *Server, credential, more string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory","arguments":{"command":"delete","path":"/memories/d"},` + more +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
		q := httptest.NewRequest("POST", "/mcp", strings.NewReader(body))
		asAgent(q)
		for name, value := range map[string]string{"Authorization": "Bearer " + credential, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "memory"} {
			q.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, q)
		return w.Body.String()
	}
	_, state, _ := strings.Cut(deletes(r.Server, token, ""), `"requestState":"`)
	state, _, asked := strings.Cut(state, `"`)
	if !asked {
		t.Fatal("nothing is asked")
	}
	answer := `"requestState":"` + state + `","inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}},`
	if got := deletes(second, other, answer); !strings.Contains(got, "the request state is not valid") {
		t.Errorf("by another token: %s", got)
	}
	if got := deletes(second, token, answer); !strings.Contains(got, "Successfully deleted /memories/d") {
		t.Errorf("at another server: %s", got)
	}
}

// TestAgentsPay for each request and for the bytes of all.
func TestAgentsPay(t *testing.T) {
	for face, write := range writes {
		t.Run(face, func(t *testing.T) {
			r := newRig(t, Options{})
			secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
			c, err := r.registry.Caller(t.Context(), secret)
			r.must(err)
			path, body := write("a")
			for name, s := range map[string]access.Session{"calls": {MaxCalls: 2}, "bytes": {MaxBytes: 2*int64(len(body)) - 1}} {
				s.Grants = map[string]access.Right{r.store.ID: access.Write}
				token, _, _, err := r.registry.NewToken(t.Context(), c, s)
				r.must(err)
				var codes []int
				for range 4 {
					w := r.ask("POST", path, body, token, asAgent)
					if path == agent.ToolPath && strings.Contains(w.Body.String(), `"kind":"over_quota"`) {
						w.Code = http.StatusTooManyRequests // which it tells the model
					}
					codes = append(codes, w.Code)
				}
				if codes[0] != 200 || codes[3] != http.StatusTooManyRequests || name == "calls" && (codes[1] != 200 || codes[2] != http.StatusTooManyRequests) {
					t.Errorf("%s: %v", name, codes)
				}
			}
		})
	}
}

// TestAgentsMistakes are answered in the form of the face.
func TestAgentsMistakes(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	long := `{"command":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, tc := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"POST", "/v1/mneme/tools/memory", "hello", `"invalid_request_error","message":"the body is no JSON`, 400},
		{"POST", "/v1/mneme/tools/memory", long, `"invalid_request_error"`, 400},
		{"POST", "/v1/mneme/tools/memory", `{"command":"view","path":"/memories","path":"/"}`, `"is_error":true,"kind":"invalid","retry":"never"`, 200},
		{"GET", "/v1/mneme/tools/memory", "", `"invalid_request_error"`, 405},
		{"POST", "/v1/mneme/plugin/recall", "hello", `"degraded":true`, 200},
		{"POST", "/v1/mneme/plugin/recall", long, "too_large: the request is longer than 1048576 bytes", 413},
		{"POST", "/v1/mneme/plugin/health", "", `"invalid_request_error"`, 405},
		{"POST", "/mcp", "hello", `"error":{"code":-32700`, 400},
		{"POST", "/mcp", long, `"error":{"code":-32600`, 413},
		{"GET", "/mcp", "", `"error":{"code":-32600`, 405},
		{"DELETE", "/mcp", "", `"error":{"code":-32600`, 405},
		{"POST", "/mcp?" + strings.Repeat("store=notes&", 101), "", `store: the parameter is there 101 times; it may be there 100 times`, 400},
		{"POST", "/mcp?store=nosuch", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `store \"nosuch\": not found`, 404},
	} {
		w := r.ask(tc.method, tc.path, tc.body, secret, asAgent)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %.40s %.40s: %d %s; want %d %s", tc.method, tc.path, tc.body, w.Code, w.Body, tc.status, tc.want)
		}
	}
}

// TestAgentsFromPages has pages that may use the server use the faces, and names of the server that
// lead to this machine.
func TestAgentsFromPages(t *testing.T) {
	r := newRig(t, Options{Hosts: []string{"memory.internal"}, Origins: []string{"https://console.example"}})
	secret := r.key(access.Read, nil)
	web := httptest.NewServer(r.Handler())
	defer web.Close()
	for origin, status := range map[string]int{"": 200, "https://console.example": 200, "https://evil.example": 403} {
		for path, body := range map[string]string{"/mcp": mcpCall("list", `{}`), "/v1/mneme/plugin/recall": `{}`} {
			q, err := http.NewRequestWithContext(t.Context(), "POST", web.URL+path, strings.NewReader(body))
			r.must(err)
			asAgent(q)
			q.Host = "memory.internal"
			q.Header.Set("Authorization", "Bearer "+secret)
			if origin != "" {
				q.Header.Set("Origin", origin)
				q.Header.Set("Sec-Fetch-Site", "cross-site")
			}
			res, err := web.Client().Do(q)
			r.must(err)
			text, err := io.ReadAll(res.Body)
			r.must(err)
			if res.StatusCode != status {
				t.Errorf("%s from %q: %s %s", path, origin, res.Status, text)
			}
		}
	}
}

// TestAgentsListen for as long as their credential counts.
func TestAgentsListen(t *testing.T) {
	r := newRig(t, Options{MaxRequests: 1})
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	token := r.token(secret, access.Read)
	web := httptest.NewServer(r.Handler())
	defer web.Close()
	q, err := http.NewRequestWithContext(t.Context(), "POST", web.URL+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["mneme://notes/"]},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	r.must(err)
	asAgent(q)
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("MCP-Protocol-Version", "2026-07-28")
	q.Header.Set("Mcp-Method", "subscriptions/listen")
	res, err := web.Client().Do(q)
	r.must(err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	hears := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("%s: nothing is heard of %s: %v", res.Status, want, lines.Err())
	}
	hears("notifications/subscriptions/acknowledged")
	_, err = st.Write(t.Context(), "/a.md", []byte("x"), versionlog.ExpectAbsent())
	r.must(err)
	hears("mneme://notes/")
	w := r.ask("POST", "/v1/mneme/sessions/revoke", `{"token":"`+token+`"}`, secret) // the only place is free
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for lines.Scan() {
	}
	if w := r.ask("POST", "/mcp", mcpCall("list", `{}`), token, asAgent); w.Code != http.StatusUnauthorized {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}
