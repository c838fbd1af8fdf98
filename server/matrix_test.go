package server

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/openapitest"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/agent"
	"mneme/server/api"
	"mneme/server/events"
	"mneme/server/gate"
	"mneme/server/history"
	"mneme/server/manage"
	"mneme/server/openapi"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a server over a library in memory, with a store "notes".
type rig struct {
	*testing.T
	*Server
	lib   *memory.Library
	store versionlog.Store
	now   time.Time

	checker *openapitest.Checker // of all that is asked and answered
}

func newRig(t *testing.T, opts Options) *rig { return newRigOver(t, memlog.New(nil), opts) }

// newRigOver is newRig over a log.
func newRigOver(t *testing.T, log versionlog.Log, opts Options) *rig {
	var mu sync.Mutex // guards blobs
	blobs := map[string]cas.Store{}
	r := &rig{T: t, now: time.Date(2026, 11, 27, 10, 30, 0, 0, time.UTC)}
	r.lib = memory.NewLibrary(log, func(id string) (cas.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if blobs[id] == nil {
			blobs[id] = memcas.New()
		}
		return blobs[id], nil
	})
	var err error
	r.store, err = r.lib.CreateStore(t.Context(), "notes", nil)
	r.must(err)
	opts.Author = &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}}
	opts.Now = func() time.Time { return r.now }
	r.Server, err = New(t.Context(), r.lib, &opts)
	r.must(err)
	t.Cleanup(r.Close)
	r.checker = openapitest.Wrap(t, opts.BasePath, r.handler)
	r.handler = r.checker
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// key makes a key and returns its secret.
func (r *rig) key(everywhere access.Right, grants map[string]access.Right) string {
	r.Helper()
	_, secret, err := r.registry.CreateKey(r.Context(), access.Key{Label: "x", Everywhere: everywhere, Grants: grants})
	r.must(err)
	return secret
}

// token makes a token of the store with a key.
func (r *rig) token(secret string, right access.Right) string {
	r.Helper()
	c, err := r.registry.Caller(r.Context(), secret)
	r.must(err)
	token, _, _, err := r.registry.NewToken(r.Context(), c, access.Session{ID: "sess-1", Grants: map[string]access.Right{r.store.ID: right}})
	r.must(err)
	return token
}

// ask makes a request, which edit may change.
func (r *rig) ask(method, path, body, credential string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	if credential != "" {
		q.Header.Set("Authorization", "Bearer "+credential)
	}
	for _, e := range edit {
		e(q)
	}
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, q)
	return w
}

// callers are the columns of the matrix. A caller without a credential that counts is answered
// 401 by every route, and is not in it.
var callers = []string{"other store", "reader", "writer", "admin", "operator", "reading token", "writing token"}

// matrix says how each operation answers each caller: the reader, the writer and the admin have a
// key for the store, the operator one for everything. 200 stands for every answer that is about
// what was asked, not about who asks.
var matrix = map[string][7]int{
	"stores.create":                         {403, 403, 403, 403, 200, 403, 403},
	"stores.list":                           {200, 200, 200, 200, 200, 200, 200},
	"stores.get":                            {404, 200, 200, 200, 200, 200, 200},
	"stores.update":                         {404, 403, 403, 200, 200, 403, 403},
	"stores.delete":                         {404, 403, 403, 200, 200, 403, 403},
	"stores.archive":                        {404, 403, 403, 200, 200, 403, 403},
	"memories.create":                       {404, 403, 200, 200, 200, 403, 200},
	"memories.list":                         {404, 200, 200, 200, 200, 200, 200},
	"memories.get":                          {404, 200, 200, 200, 200, 200, 200},
	"memories.update":                       {404, 403, 200, 200, 200, 403, 200},
	"memories.delete":                       {404, 403, 200, 200, 200, 403, 200},
	"versions.list":                         {404, 200, 200, 200, 200, 200, 200},
	"versions.get":                          {404, 200, 200, 200, 200, 200, 200},
	"versions.redact":                       {404, 403, 403, 200, 200, 403, 403},
	"POST /v1/mneme/sessions":               {404, 403, 200, 200, 200, 403, 403},
	"POST /v1/mneme/sessions/revoke":        {404, 404, 200, 404, 200, 404, 404},
	"POST /v1/mneme/keys":                   {403, 403, 403, 403, 200, 403, 403},
	"GET /v1/mneme/keys":                    {403, 403, 403, 403, 200, 403, 403},
	"GET /v1/mneme/keys/{key}":              {403, 403, 403, 403, 200, 403, 403},
	"POST /v1/mneme/keys/{key}/disable":     {403, 403, 403, 403, 200, 403, 403},
	"POST /v1/mneme/keys/{key}/enable":      {403, 403, 403, 403, 200, 403, 403},
	"POST /v1/mneme/keys/{key}/rotate":      {403, 403, 403, 403, 200, 403, 403},
	"DELETE /v1/mneme/keys/{key}":           {403, 403, 403, 403, 200, 403, 403},
	"GET /v1/mneme/stores/{store}/events":   {404, 200, 200, 200, 200, 200, 200},
	"POST /v1/mneme/stores/{store}/batch":   {404, 403, 200, 200, 200, 403, 200},
	"POST /v1/mneme/stores/{store}/restore": {404, 403, 200, 200, 200, 403, 200},
	"GET /v1/mneme/stores/{store}/diff":     {404, 200, 200, 200, 200, 200, 200},
	"POST /mcp":                             {404, 200, 200, 200, 200, 200, 200},
	"POST /v1/mneme/tools/memory":           {404, 200, 200, 200, 200, 200, 200},
	"POST /v1/mneme/plugin/recall":          {404, 200, 200, 200, 200, 200, 200},
	"POST /v1/mneme/plugin/remember":        {404, 200, 200, 200, 200, 200, 200},
	"GET /v1/mneme/plugin/health":           {404, 200, 200, 200, 200, 200, 200},
	"GET /metrics":                          {403, 403, 403, 403, 200, 403, 403},
}

// TestAuthorization asks for every route with every kind of credential. The document has each of them, and no
// other operation.
func TestAuthorization(t *testing.T) {
	type route struct{ method, path, name string }
	var routes []route
	for _, r := range api.Routes {
		routes = append(routes, route{r.Method, r.Path, r.Name})
	}
	for _, r := range manage.Routes {
		routes = append(routes, route{r.Method, r.Path, r.Method + " " + r.Path})
	}
	for _, r := range history.Routes {
		routes = append(routes, route{r.Method, r.Path, r.Method + " " + r.Path})
	}
	for _, r := range agent.Routes {
		routes = append(routes, route{r.Method, r.Path + "?store={store}", r.Method + " " + r.Path})
	}
	routes = append(routes, route{"GET", "/metrics", "GET /metrics"}, route{"GET", events.Path, "GET " + events.Path})
	seen := map[string]bool{}
	described := map[string]bool{} // operations, and whether one was answered with success
	for _, route := range routes {
		want, known := matrix[route.name]
		if !known {
			t.Errorf("the matrix has no row for %s", route.name)
		}
		seen[route.name] = true
		for i, who := range callers {
			t.Run(route.name+"/"+who, func(t *testing.T) {
				r := newRig(t, Options{})
				st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
				r.must(err)
				v, err := st.Write(t.Context(), "/a.md", []byte("text"), versionlog.ExpectAbsent())
				r.must(err)
				_, err = st.Write(t.Context(), "/a.md", []byte("another"), versionlog.ExpectVersion(v.ID))
				r.must(err)
				victim, _, err := r.registry.CreateKey(t.Context(), access.Key{Label: "victim", Everywhere: access.Read})
				r.must(err)
				path := strings.NewReplacer("{store}", r.store.ID, "{memory}", v.MemoryID, "{version}", v.ID, "{key}", victim.ID).Replace(route.path)
				writer := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
				body := map[string]string{
					"stores.create": `{"name":"x"}`, "stores.update": `{"description":"x"}`, "memories.create": `{"path":"/b.md","content":"x"}`,
					"memories.update": `{"content":"y"}`, "POST /v1/mneme/keys": `{"label":"y","everywhere":"read"}`,
					"POST /v1/mneme/stores/{store}/batch":   `{"changes":[{"action":"put","path":"/b.md","content":"x"}]}`,
					"POST /v1/mneme/stores/{store}/restore": `{"path":"/","at":"0"}`,
					"POST /mcp":                             `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"path":"/memories/b.md","text":"x"}}}`,
					"POST /v1/mneme/tools/memory":           `{"command":"create","path":"/memories/b.md","file_text":"x"}`,
					"POST /v1/mneme/plugin/recall":          `{"query_text":"x"}`,
					"POST /v1/mneme/plugin/remember":        `{"thread_id":"t","turn_id":"1","entries":[{"text":"x"}]}`,
					"POST /v1/mneme/sessions":               fmt.Sprintf(`{"resources":[{"memory_store_id":%q}]}`, r.store.ID),
					"POST /v1/mneme/sessions/revoke":        fmt.Sprintf(`{"token":%q}`, r.token(writer, access.Read)),
				}[route.name]
				if route.method == "GET" {
					body = ""
				}
				secret := map[string]func() string{
					"other store":   func() string { return r.key(access.None, map[string]access.Right{"memstore_x": access.Admin}) },
					"reader":        func() string { return r.key(access.None, map[string]access.Right{r.store.ID: access.Read}) },
					"writer":        func() string { return writer },
					"admin":         func() string { return r.key(access.None, map[string]access.Right{r.store.ID: access.Admin}) },
					"operator":      func() string { return r.key(access.Admin, nil) },
					"reading token": func() string { return r.token(writer, access.Read) },
					"writing token": func() string { return r.token(writer, access.Write) },
				}[who]()
				tip, err := st.Tip(t.Context())
				r.must(err)
				w := r.ask(route.method, path, body, secret, func(q *http.Request) {
					if strings.Contains(path, "?store=") {
						asAgent(q)
					}
				})
				for operation, done := range r.checker.Operations() {
					described[operation] = described[operation] || done
				}
				if w.Code != want[i] {
					t.Errorf("%d %s, want %d", w.Code, w.Body, want[i])
				}
				reads := who == "reader" || who == "reading token" // what an agent may not do is told it with 200
				if after, err := st.Tip(t.Context()); (want[i] != 200 || reads) && (err != nil || after != tip) {
					t.Errorf("the store has changed: %v", err)
				}
				if want[i] == 404 && strings.Contains(w.Body.String(), "notes") {
					t.Errorf("it tells of a store that the caller does not see: %s", w.Body)
				}
			})
		}
		r := newRig(t, Options{})
		disabled, disabledSecret, err := r.registry.CreateKey(t.Context(), access.Key{Label: "x", Everywhere: access.Admin})
		r.must(err)
		_, err = r.registry.SetDisabled(t.Context(), disabled.ID, true)
		r.must(err)
		_, expired, err := r.registry.CreateKey(t.Context(), access.Key{Label: "x", Everywhere: access.Admin, Expires: r.now})
		r.must(err)
		for name, secret := range map[string]string{"none": "", "wrong": "mneme_x_y", "disabled": disabledSecret, "expired": expired} {
			if w := r.ask(route.method, route.path, "", secret); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"authentication_error"`) {
				t.Errorf("%s, %s: %d %s", route.name, name, w.Code, w.Body)
			}
		}
	}
	for _, route := range gate.Routes { // whose rights package gate tests
		r := newRig(t, Options{})
		if w := r.ask(route.Method, route.Path, "", "mneme_x_y"); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d %s", route.Name, w.Code, w.Body)
		}
		if w := r.ask(route.Method, route.Path, "", r.key(access.None, map[string]access.Right{"memstore_x": access.Read})); w.Code == http.StatusUnauthorized || strings.Contains(w.Body.String(), `"type":"error"`) {
			t.Errorf("%s is not served: %d %s", route.Name, w.Code, w.Body)
		}
	}
	r := newRig(t, Options{})
	for _, path := range []string{"/healthz", "/readyz", openapi.Path} {
		w := r.ask("GET", path, "", "")
		if w.Code != http.StatusOK || path == openapi.Path && !bytes.Equal(w.Body.Bytes(), openapi.Document) {
			t.Errorf("%s without a key: %d %.500s", path, w.Code, w.Body)
		}
		routes = append(routes, route{"GET", path, ""})
		described["GET "+path] = r.checker.Operations()["GET "+path]
	}
	for _, route := range routes {
		name := openapitest.Operation(route.method, strings.TrimSuffix(route.path, "?store={store}"))
		if done, known := described[name]; !known || !done {
			t.Errorf("%s: the document has it: %v, it was answered with success: %v", name, known, done)
		}
		delete(described, name)
	}
	for operation := range described {
		t.Errorf("%s is no route", operation)
	}
	for name := range matrix {
		if !seen[name] {
			t.Errorf("the matrix has a row for %s, which is no route", name)
		}
	}
}
