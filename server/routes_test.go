package server

import (
	"strings"
	"testing"

	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/openapi"
)

// TestMethods: a path that has other methods says which, one that is none is not there, and neither does
// anything.
func TestMethods(t *testing.T) {
	r := newRig(t, Options{})
	admin := r.key(access.Admin, nil)
	before := r.state()
	store := "/v1/memory_stores/" + r.store.ID
	own := "/v1/mneme/stores/" + r.store.ID
	for _, c := range []struct {
		method, path, allowed string // "": there is no such operation
	}{
		{"PUT", "/v1/memory_stores", "GET, HEAD, POST"},
		{"DELETE", "/v1/memory_stores", "GET, HEAD, POST"},
		{"PATCH", store, "GET, HEAD, POST, DELETE"},
		{"GET", store + "/archive", "POST"},
		{"PUT", store + "/memories/mem_x", "GET, HEAD, POST, PATCH, DELETE"},
		{"DELETE", store + "/memory_versions/memver_x", "GET, HEAD"},
		{"OPTIONS", store, "GET, HEAD, POST, DELETE"},
		{"GET", "/v1/mneme/sessions", "POST"},
		{"POST", "/v1/mneme/keys/apikey_x", "GET, HEAD, DELETE"},
		{"GET", own + "/batch", "POST"},
		{"POST", own + "/diff", "GET, HEAD"},
		{"POST", own + "/events", "GET"},
		{"HEAD", own + "/events", "GET"},
		{"GET", "/v1/mneme/tools/memory", "POST"},
		{"POST", "/v1/mneme/plugin/health", "GET, HEAD"},
		{"POST", "/metrics", "GET, HEAD"},
		{"GET", wire.Prefix + wire.OpHead, "POST"},
		{"POST", "/healthz", "GET, HEAD"},
		{"DELETE", "/readyz", "GET, HEAD"},
		{"POST", openapi.Path, "GET, HEAD"},
		{"GET", "/v1/mneme/nothing", ""},
		{"POST", "/v1/mneme", ""},
		{"POST", strings.TrimSuffix(wire.Prefix, "/"), ""},
		{"POST", store + "/memories/mem_x/nothing", ""},
	} {
		w := r.ask(c.method, c.path, "", admin)
		want, kind := 405, "invalid_request_error"
		if c.allowed == "" {
			want, kind = 404, "not_found_error"
		}
		if w.Code != want || w.Header().Get("Allow") != c.allowed {
			t.Errorf("%s %s: %d, allowed %q; %s", c.method, c.path, w.Code, w.Header().Get("Allow"), w.Body)
		} else if c.method != "HEAD" {
			if got := r.refusal(w.Body.Bytes(), w.Header()); got != kind || !strings.Contains(w.Body.String(), c.allowed) {
				t.Errorf("%s %s: %s", c.method, c.path, w.Body)
			}
		}
		if w := r.ask(c.method, c.path, "", ""); c.path != openapi.Path && !strings.HasSuffix(c.path, "z") && w.Code != 401 {
			t.Errorf("%s %s without a key: %d", c.method, c.path, w.Code)
		}
	}
	for _, path := range []string{
		"/healthz", "/readyz", openapi.Path, "/metrics", "/v1/memory_stores", store, store + "/memories", store + "/memory_versions", "/v1/mneme/keys", own + "/diff", "/v1/mneme/plugin/health",
	} {
		if get, w := r.ask("GET", path, "", admin), r.ask("HEAD", path, "", admin); w.Code != get.Code || w.Code == 405 {
			t.Errorf("HEAD %s: %d, and GET %d", path, w.Code, get.Code)
		}
		if w := r.ask("PUT", path, "", admin); !strings.HasPrefix(w.Header().Get("Allow"), "GET, HEAD") {
			t.Errorf("PUT %s: allowed %q", path, w.Header().Get("Allow"))
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}
