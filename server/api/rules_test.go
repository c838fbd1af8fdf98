package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
)

// TestUpdateOfBoth: content and path in one request are one version.
func TestUpdateOfBoth(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	m := r.ok("POST", s+"/memories", `{"path":"/a.md","content":"one"}`)
	other := r.ok("POST", s+"/memories", `{"path":"/taken.md","content":"x"}`)
	at := s + "/memories/" + m["id"].(string)
	both := fmt.Sprintf(`{"path":"/b.md","content":"two","precondition":{"type":"content_sha256","content_sha256":%q}}`, m["content_sha256"])
	got := r.ok("POST", at+"?view=full", both)
	if got["path"] != "/b.md" || got["content"] != "two" || got["id"] != m["id"] {
		t.Errorf("%v", got)
	}
	if again := r.ok("POST", at, both); again["memory_version_id"] != got["memory_version_id"] {
		t.Errorf("repeated, it made %v", again)
	}
	e := r.refused("POST", at, `{"path":"/taken.md","content":"three"}`, 409, "memory_path_conflict_error")
	if e["conflicting_memory_id"] != other["id"] || e["conflicting_path"] != "/taken.md" {
		t.Errorf("%v", e)
	}
	if all := r.ok("GET", s+"/memory_versions?memory_id="+m["id"].(string), "")["data"].([]any); len(all) != 2 {
		t.Errorf("%d versions, want 2: %v", len(all), all)
	}
}

// TestDirectories: a directory that a mount has made has a path, and no visible version.
func TestDirectories(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	id := strings.TrimPrefix(s, "/v1/memory_stores/")
	st, err := r.lib.Open(t.Context(), id, &memory.Author{Actor: r.caller.Actor})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := st.MakeDir(t.Context(), "/a", versionlog.ExpectAbsent(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := r.refused("POST", s+"/memories", `{"path":"/a","content":"x"}`, 409, "memory_path_conflict_error")
	if e["conflicting_path"] != "/a/" || e["conflicting_memory_id"] != "" {
		t.Errorf("%v", e)
	}
	for _, path := range []string{"/memories", "/memory_versions"} {
		if got := r.ok("GET", s+path, "")["data"].([]any); len(got) != 0 {
			t.Errorf("%v", got)
		}
	}
	r.refused("GET", s+"/memories/"+dir.MemoryID, "", 404, "not_found_error")
	r.refused("GET", s+"/memory_versions/"+dir.ID, "", 404, "not_found_error")
	m := r.ok("POST", s+"/memories", `{"path":"/a/e\u0301","content":"x"}`)
	if m["path"] != "/a/\u00e9" {
		t.Errorf("%v", m)
	}
	r.refused("POST", s+"/memories", `{"path":"/a/e\u0301","content":"x"}`, 409, "memory_path_conflict_error")
}

// TestStores goes through the life of a store.
func TestStores(t *testing.T) {
	r := newRig(t)
	a := r.ok("POST", "/v1/memory_stores", `{"name":"Demo Memory","description":"d","metadata":{"k":"v","gone":"x"}}`)
	b := r.ok("POST", "/v1/memory_stores", `{"name":"Demo Memory"}`)
	c := r.ok("POST", "/v1/memory_stores", `{"name":"日記"}`)
	if a["slug"] != "demo-memory" || b["slug"] == a["slug"] || b["name"] != a["name"] || c["slug"] == "" || b["description"] != "" || b["archived_at"] != nil {
		t.Errorf("%v\n%v\n%v", a, b, c)
	}
	at := "/v1/memory_stores/" + a["id"].(string)
	got := r.ok("POST", at, `{"description":"","metadata":{"k":"w","gone":null,"new":"n"}}`)
	if fmt.Sprint(got["metadata"]) != "map[k:w new:n]" || got["description"] != "" || got["name"] != "Demo Memory" {
		t.Errorf("%v", got)
	}
	if same := r.ok("POST", at, `{"name":null,"description":null,"metadata":null}`); same["name"] != got["name"] || fmt.Sprint(same["metadata"]) != "map[k:w new:n]" || same["updated_at"] != got["updated_at"] {
		t.Errorf("nulls changed the store: %v", same)
	}
	m := r.ok("POST", at+"/memories", `{"path":"/a","content":""}`)
	if now := r.ok("GET", at, ""); now["updated_at"] != got["updated_at"] {
		t.Errorf("a memory changed the store: %v", now)
	}
	if got := r.ok("POST", at+"/archive", ""); got["archived_at"] == nil {
		t.Errorf("%v", got)
	}
	r.ok("POST", at+"/archive", "{}") // as a client does that has lost the answer
	r.refused("POST", at+"/memories", `{"path":"/b","content":""}`, 400, "invalid_request_error")
	r.refused("POST", at, `{"name":"n"}`, 400, "invalid_request_error")
	r.ok("DELETE", at+"/memories/"+m["id"].(string), "")
	list := func(query string) int { return len(r.ok("GET", "/v1/memory_stores"+query, "")["data"].([]any)) }
	if list("") != 2 || list("?include_archived=true") != 3 || list("?created_at[lte]=2001-01-01T00:00:00Z") != 0 || list("?created_at[gte]=2001-01-01T00:00:00Z") != 2 {
		t.Error("the list of stores is another")
	}
	if got := r.ok("DELETE", at, ""); got["type"] != "memory_store_deleted" || got["id"] != a["id"] {
		t.Errorf("%v", got)
	}
	r.refused("GET", at, "", 404, "not_found_error")
}

// TestVersions: filters, pages, redaction.
func TestVersions(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	m := r.ok("POST", s+"/memories", `{"path":"/a","content":"0"}`)
	at := s + "/memories/" + m["id"].(string)
	for i := 1; i < 5; i++ {
		r.ok("POST", at, fmt.Sprintf(`{"content":"%d"}`, i))
	}
	r.ok("POST", s+"/memories", `{"path":"/b","content":"x"}`)
	for query, want := range map[string]int{
		"":                              6,
		"memory_id=" + m["id"].(string): 5,
		"operation=created":             2,
		"operation=deleted":             0,
		"api_key_id=apikey_1":           6,
		"api_key_id=apikey_2":           0,
		"session_id=apikey_1":           0,
		"created_at[gte]=2001-01-01T00:00:00Z&operation=modified": 4,
		"created_at[lte]=2001-01-01T00:00:00Z":                    0,
		"memory_id=mem_none":                                      0,
	} {
		n, last := 0, "~"
		for page, pages := "", 0; pages < 10; pages++ {
			got := r.ok("GET", s+"/memory_versions?limit=2&view=full&"+query+"&page="+page, "")
			for _, one := range got["data"].([]any) {
				v := one.(map[string]any)
				if n++; v["id"].(string) >= last || v["content"] == nil || v["created_by"].(map[string]any)["api_key_id"] != "apikey_1" {
					t.Errorf("%s: %v after %s", query, v, last)
				}
				last = v["id"].(string)
			}
			if got["next_page"] == nil {
				break
			}
			page = got["next_page"].(string)
		}
		if n != want {
			t.Errorf("%s: %d versions, want %d", query, n, want)
		}
	}
	first := s + "/memory_versions/" + m["memory_version_id"].(string)
	head := r.ok("GET", at, "")["memory_version_id"].(string)
	r.refused("POST", s+"/memory_versions/"+head+"/redact", "", 409, "conflict_error")
	got := r.ok("POST", first+"/redact", "{}")
	if got["path"] != nil || got["content_sha256"] != nil || got["content_size_bytes"] != nil || got["redacted_at"] == nil || got["redacted_by"] == nil {
		t.Errorf("%v", got)
	}
	if again := r.ok("POST", first+"/redact", ""); again["redacted_at"] != got["redacted_at"] {
		t.Errorf("redacted again: %v", again)
	}
	if again := r.ok("GET", first, ""); again["redacted_at"] != got["redacted_at"] || again["content"] != nil || again["memory_id"] != m["id"] {
		t.Errorf("%v", again)
	}
}

// TestBadRequests: what makes no sense is said so in the published shape, and changes nothing.
func TestBadRequests(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	m := r.ok("POST", s+"/memories", `{"path":"/a.md","content":"one"}`)
	at := s + "/memories/" + m["id"].(string)
	for _, test := range []struct{ method, path, body string }{
		{"POST", s + "/memories", `{"path":`},
		{"POST", s + "/memories", `[]`},
		{"POST", s + "/memories", `null`},
		{"POST", s + "/memories", `{}`},
		{"POST", s + "/memories", `{"path":"/b"}`},
		{"POST", s + "/memories", `{"path":"/b","content":1}`},
		{"POST", s + "/memories", `{"path":"/b","content":"x","content":"y"}`},
		{"POST", s + "/memories", `{"path":"/b","content":"x","other":1}`},
		{"POST", s + "/memories", `{"path":"/b","content":"\ud800"}`},
		{"POST", s + "/memories", `{"path":"b","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/b/","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/a//b","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/a/../b","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/a\u0000","content":"x"}`},
		{"POST", s + "/memories", `{"path":"` + strings.Repeat("/x", 21) + `","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/` + strings.Repeat("x", 1024) + `","content":"x"}`},
		{"POST", s + "/memories", `{"path":"/b","content":"` + strings.Repeat("x", 102401) + `"}`},
		{"POST", s + "/memories", `{"path":"/b","content":"` + strings.Repeat("x", 2<<20) + `"}`},
		{"POST", s + "/memories", strings.Repeat("[", 100000)},
		{"POST", s + "/memories?view=all", `{"path":"/b","content":"x"}`},
		{"POST", at, ``},
		{"POST", at, `{"content":null}`},
		{"POST", at, `{"content":"x","precondition":{"type":"other"}}`},
		{"POST", at, `{"content":"x","precondition":{"type":"content_sha256","content_sha256":"x"}}`},
		{"DELETE", at + "?expected_content_sha256=x", ""},
		{"GET", s + "/memory_versions?operation=renamed", ""},
		{"GET", s + "/memory_versions?session_id=a&api_key_id=b", ""},
		{"GET", s + "/memory_versions?created_at[gte]=yesterday", ""},
		{"GET", s + "/memory_versions?view=full&limit=21", ""},
		{"GET", "/v1/memory_stores?include_archived=perhaps", ""},
		{"POST", "/v1/memory_stores", `{"name":""}`},
		{"POST", "/v1/memory_stores", `{"name":"` + strings.Repeat("x", 256) + `"}`},
		{"POST", "/v1/memory_stores", `{"name":"a\nb"}`},
		{"POST", "/v1/memory_stores", `{"name":"n","description":"` + strings.Repeat("x", 1025) + `"}`},
		{"POST", "/v1/memory_stores", `{"name":"n","metadata":{"k":1}}`},
		{"POST", "/v1/memory_stores", `{"name":"n","metadata":{"k":"` + strings.Repeat("x", 513) + `"}}`},
		{"POST", s + "/archive", `{"x":1}`},
	} {
		r.refused(test.method, test.path, test.body, 400, "invalid_request_error")
	}
	for _, test := range []struct{ method, path string }{
		{"GET", "/v1/memory_stores/memstore_none"}, {"GET", "/v1/memory_stores/..%2f"}, {"GET", s + "/memories/mem_none"},
		{"DELETE", s + "/memories/mem_none"}, {"GET", s + "/memory_versions/memver_none"}, {"POST", s + "/memory_versions/memver_none/redact"},
		{"GET", "/v1/other"},
	} {
		r.refused(test.method, test.path, "", 404, "not_found_error")
	}
	r.refused("PUT", s, "", 405, "invalid_request_error")
	if got := r.ok("GET", s+"/memory_versions", "")["data"].([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := r.ok("GET", "/v1/memory_stores", "")["data"].([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestHeaders: every answer has an id, and one that would be the same again says so.
func TestHeaders(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	r.ok("POST", s+"/memories", `{"path":"/a","content":"x"}`)
	for _, test := range []struct {
		body, beta, retry string
		status            int
	}{
		{`{"path":"/a","content":"x"}`, "agent-memory-2026-07-22", "false", 409},
		{`{"path":"/a/b","content":"x"}`, "managed-agents-2026-04-01", "false", 409},
		{`{"path":"/c","content":"x"}`, "managed-agents-2026-04-01, agent-memory-2026-07-22", "", 400},
		{`{"path":"/c","content":"x"}`, "", "", 200},
	} {
		q := httptest.NewRequest("POST", s+"/memories?beta=true", strings.NewReader(test.body))
		q.Header.Set("Anthropic-Beta", test.beta)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		h := w.Header()
		if w.Code != test.status || h.Get("X-Should-Retry") != test.retry || !strings.HasPrefix(h.Get("Request-Id"), "req_") || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d, %v", test.body, w.Code, h)
		}
	}
}

// TestRights asks for every operation with every right: a store that a caller does not see is
// not there, and what it lacks is a right.
func TestRights(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	m := r.ok("POST", s+"/memories", `{"path":"/a","content":"x"}`)
	store, full := strings.TrimPrefix(s, "/v1/memory_stores/"), r.caller
	fill := strings.NewReplacer("{store}", store, "{memory}", m["id"].(string), "{version}", m["memory_version_id"].(string))
	for _, right := range []access.Right{access.None, access.Read, access.Write} {
		r.caller = access.Caller{Library: r.lib, Actor: full.Actor, Grants: map[string]access.Right{store: right}}
		for _, route := range Routes {
			status, kind := http.StatusForbidden, "permission_error"
			switch {
			case route.Name == "stores.list":
				if got := r.ok("GET", "/v1/memory_stores", "")["data"].([]any); (len(got) == 1) != (right >= access.Read) {
					t.Errorf("%v sees %v", right, got)
				}
				continue
			case right >= route.Right:
				continue
			case right == access.None && strings.Contains(route.Path, "{store}"):
				status, kind = http.StatusNotFound, "not_found_error"
			}
			r.refused(route.Method, fill.Replace(route.Path), "", status, kind)
		}
	}
	r.caller = full
	if got := r.ok("GET", s+"/memory_versions", "")["data"].([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
