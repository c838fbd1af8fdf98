package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/api"
	"mneme/server/gate"
	"mneme/server/history"
	"mneme/server/manage"
	"mneme/versionlog"
)

// FuzzRoutes has no request that a listener lets through make the handler panic, fail or answer in
// another form than the published one, and none change anything whose credential may not.
func FuzzRoutes(f *testing.F) {
	headers := "Content-Type: application/json\nAnthropic-Version: 2026-10-21\nAnthropic-Beta: agent-memory-2026-07-22\nX-Idempotency-Key: k"
	bodies := map[string]string{
		"stores.create": `{"name":"x","metadata":{"k":"v"}}`, "stores.update": `{"metadata":{"k":null}}`, "memories.create": `{"path":"/b.md","content":"x"}`,
		"memories.update": `{"content":"y","path":"/c.md","precondition":{"type":"version","memory_version_id":"{version}"}}`,
	}
	for i, one := range api.Routes {
		f.Add(byte(i), one.Method, one.Path+"?view=full&limit=3&depth=1&path_prefix=%2Fa%2F&expected_content_sha256=x&created_at[gte]=2026-01-01T00:00:00Z&page=page_x", headers, bodies[one.Name])
	}
	for i, one := range manage.Routes {
		f.Add(byte(i), one.Method, one.Path, headers, `{"label":"x","everywhere":"read","expires_in":9,"token":"x","resources":[{"memory_store_id":"{store}","access":"read_only"}],"max_calls":1}`)
	}
	for i, one := range history.Routes {
		f.Add(byte(i), one.Method, one.Path+"?from=0&to=HEAD~1&path=/a", headers, `{"changes":[{"action":"rename","path":"/a.md","to":"/b","if_version":"{version}"}],"idempotency_key":"k","path":"/","at":"0"}`)
	}
	for i, one := range gate.Routes {
		f.Add(byte(i), one.Method, one.Path, wire.StoreHeader+": {store}\n"+wire.DigestHeader+": x", `{"store":"{store}","path":"/","id":"{version}","seq":1,"at":1}`)
	}
	for _, target := range []string{"/healthz", "/metrics", "/v1/mneme/stores/{store}/events?after=0&limit=1", "/v1/mneme", "//", "*", "/%2e%2e/", "/%c0%af"} {
		f.Add(byte(3), "GET", target, "Origin: null\nHost: x\nX-Forwarded-For: 1.2.3.4\nLast-Event-ID: 1", "")
	}
	f.Fuzz(func(t *testing.T, who byte, method, target, headers, body string) {
		r := newRig(t, Options{})
		r.handler = r.checker.Unchecked()
		st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
		r.must(err)
		v, err := st.Write(t.Context(), "/a.md", []byte("text"), versionlog.ExpectAbsent())
		r.must(err)
		key, _, err := r.registry.CreateKey(t.Context(), access.Key{Label: "victim", Everywhere: access.Read})
		r.must(err)
		secret, mayWrite := "", false
		switch who % 5 {
		case 1:
			secret = "mneme_x_y"
		case 2:
			secret = r.key(access.Read, nil)
		case 3:
			secret, mayWrite = r.key(access.Admin, nil), true
		case 4:
			secret, mayWrite = r.token(r.key(access.None, map[string]access.Right{r.store.ID: access.Write}), access.Write), true
		}
		fill := strings.NewReplacer("{store}", r.store.ID, "{memory}", v.MemoryID, "{version}", v.ID, "{key}", key.ID)
		q, err := http.NewRequest(method, "/", strings.NewReader(fill.Replace(body)))
		if err != nil {
			return
		}
		q.RequestURI, q.RemoteAddr = fill.Replace(target), "192.0.2.1:1"
		if q.URL, err = url.ParseRequestURI(q.RequestURI); err != nil || !httpguts.ValidHostHeader(q.Host) {
			return
		}
		for line := range strings.SplitSeq(fill.Replace(headers), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return
			}
			q.Header.Add(name, value)
		}
		if who%5 != 0 {
			q.Header.Set("Authorization", "Bearer "+secret)
		}
		if strings.Contains(q.URL.RawQuery, "wait") || strings.Contains(target, wire.OpFollow) || q.Header.Get("Accept") != "" {
			return // it waits for news
		}
		before := r.state()
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, q)
		kind, answer := w.Header().Get("Content-Type"), w.Body.Bytes()
		if w.Code < 200 || w.Code >= 300 && w.Code < 400 || w.Code >= 500 && (kind != wire.TypeError || w.Code != http.StatusNotImplemented) || w.Header().Get("Request-Id") == "" {
			t.Errorf("%d %v %s", w.Code, w.Header(), answer)
		}
		switch {
		case q.Method == http.MethodHead:
		case kind == wire.TypeError:
			if err := wire.DecodeError(answer); err == nil || w.Code == 200 {
				t.Errorf("%d %s", w.Code, answer)
			}
		case w.Code >= 400 && !strings.HasPrefix(kind, "text/plain"): // as of healthz
			r.refusal(answer, w.Header())
		case kind == wire.TypeJSON && !json.Valid(answer):
			t.Errorf("%d %s", w.Code, answer)
		}
		if after := r.state(); after != before && !mayWrite {
			t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
		}
	})
}
