package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/forget"
	"mneme/internal/testing/openapitest"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a handler over a library in memory, and a caller who may do everything.
type rig struct {
	*testing.T
	http.Handler
	lib    *memory.Library
	caller access.Caller
	kept   string // the directory of kept conflicts
}

func newRig(t *testing.T) *rig {
	blobs := map[string]cas.Store{}
	r := &rig{T: t, kept: t.TempDir(), lib: memory.NewLibrary(memlog.New(nil), func(id string) (cas.Store, error) {
		if blobs[id] == nil {
			blobs[id] = memcas.New()
		}
		return blobs[id], nil
	})}
	r.caller = access.Caller{Library: r.lib, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_1"}, Key: &access.Key{SHA256: "of a secret"}, Everywhere: access.Admin}
	mux := http.NewServeMux()
	Register(mux, func(*http.Request) (*access.Caller, error) { return &r.caller, nil }, &Options{Machine: &forget.Machine{
		Conflicts: func(id string) *conflict.Store { return conflict.New(filepath.Join(r.kept, id)) },
	}})
	mux.HandleFunc("/", reply.NoRoute(mux, slog.New(slog.DiscardHandler)))
	r.Handler = openapitest.Wrap(t, "", mux)
	return r
}

// ask makes a request and returns status and answer.
func (r *rig) ask(method, path, body string, header ...string) (int, map[string]any) {
	r.Helper()
	w := httptest.NewRecorder()
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	r.ServeHTTP(w, q)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		r.Fatalf("%s %s: %d, %q: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, answer
}

// ok makes a request that succeeds.
func (r *rig) ok(method, path, body string) map[string]any {
	r.Helper()
	status, answer := r.ask(method, path, body)
	if status != http.StatusOK {
		r.Fatalf("%s %s %s: %d, %v", method, path, body, status, answer)
	}
	return answer
}

// refused makes a request that ends with a status and a type of error.
func (r *rig) refused(method, path, body string, status int, kind string) map[string]any {
	r.Helper()
	got, answer := r.ask(method, path, body)
	e, _ := answer["error"].(map[string]any)
	if got != status || answer["type"] != "error" || e["type"] != kind || answer["request_id"] == "" {
		r.Errorf("%s %s %s: %d, %v; want %d %s", method, path, body, got, answer, status, kind)
	}
	return e
}

func (r *rig) store(name string) string {
	r.Helper()
	return "/v1/memory_stores/" + r.ok("POST", "/v1/memory_stores", fmt.Sprintf(`{"name":%q}`, name))["id"].(string)
}

// TestMemories goes through the life of a memory.
func TestMemories(t *testing.T) {
	r := newRig(t)
	s := r.store("Demo Memory")
	m := r.ok("POST", s+"/memories", `{"path":"/a/b.md","content":"one"}`)
	at := s + "/memories/" + m["id"].(string)
	if m["content"] != nil || m["content_size_bytes"] != 3.0 || m["path"] != "/a/b.md" {
		t.Errorf("%v", m)
	}
	for _, path := range []string{"/a/b.md", "/a", "/a/b.md/c"} {
		e := r.refused("POST", s+"/memories", fmt.Sprintf(`{"path":%q,"content":"x"}`, path), 409, "memory_path_conflict_error")
		if e["conflicting_path"] != "/a/b.md" || e["conflicting_memory_id"] != m["id"] {
			t.Errorf("%s: %v", path, e)
		}
	}
	sum := m["content_sha256"].(string)
	two := r.ok("POST", at, fmt.Sprintf(`{"content":"two","precondition":{"type":"content_sha256","content_sha256":%q}}`, sum))
	again := r.ok("POST", at, fmt.Sprintf(`{"content":"two","precondition":{"type":"content_sha256","content_sha256":%q}}`, sum))
	if two["memory_version_id"] != again["memory_version_id"] {
		t.Errorf("the same request made %v and %v", two, again)
	}
	e := r.refused("POST", at, fmt.Sprintf(`{"content":"three","precondition":{"type":"content_sha256","content_sha256":%q}}`, sum), 409, "memory_precondition_failed_error")
	if strings.Contains(fmt.Sprint(e), two["content_sha256"].(string)) {
		t.Errorf("%v tells what is there", e)
	}
	r.ok("POST", at, `{"path":"/c.md"}`)
	if got := r.ok("GET", at, ""); got["path"] != "/c.md" || got["content"] != "two" || got["created_at"] != m["created_at"] {
		t.Errorf("%v", got)
	}
	r.refused("DELETE", at+"?expected_content_sha256="+sum, "", 409, "memory_precondition_failed_error")
	if got := r.ok("DELETE", at, ""); got["type"] != "memory_deleted" || got["id"] != m["id"] {
		t.Errorf("%v", got)
	}
	r.refused("GET", at, "", 404, "not_found_error")
	versions := r.ok("GET", s+"/memory_versions?memory_id="+m["id"].(string), "")["data"].([]any)
	var ops []string
	for _, v := range versions {
		ops = append(ops, v.(map[string]any)["operation"].(string))
	}
	if fmt.Sprint(ops) != "[deleted modified modified created]" {
		t.Errorf("%v", ops)
	}
}

// TestListMemories reads lists in pages while others write.
func TestListMemories(t *testing.T) {
	r := newRig(t)
	s := r.store("notes")
	for _, path := range []string{"/a.md", "/b/1.md", "/b/2.md", "/b/c/3.md", "/b.md", "/d/4.md", "/é.md"} {
		r.ok("POST", s+"/memories", fmt.Sprintf(`{"path":%q,"content":"x"}`, path))
	}
	list := func(query string) (all []string) {
		page := ""
		for n := 0; ; n++ {
			got := r.ok("GET", s+"/memories?limit=2&"+query+"&page="+page, "")
			for _, one := range got["data"].([]any) {
				all = append(all, one.(map[string]any)["path"].(string))
			}
			if got["next_page"] == nil {
				return all
			}
			page = got["next_page"].(string)
			r.ok("POST", s+"/memories", fmt.Sprintf(`{"path":"/0%d%s.md","content":"x"}`, n, bytes.Map(func(c rune) rune {
				if c >= 'a' && c <= 'z' {
					return c
				}
				return -1
			}, []byte(query))))
		}
	}
	if got := fmt.Sprint(list("depth=1")); got != "[/a.md /b.md /b/ /d/ /é.md]" {
		t.Error(got)
	}
	if got := fmt.Sprint(list("path_prefix=/b/")); got != "[/b/1.md /b/2.md /b/c/3.md]" {
		t.Error(got)
	}
	if got := fmt.Sprint(list("path_prefix=/b/&depth=1")); got != "[/b/1.md /b/2.md /b/c/]" {
		t.Error(got)
	}
	for _, query := range []string{"depth=2", "depth=-1", "path_prefix=/b", "limit=0", "limit=101", "view=full&limit=21", "view=x", "page=page_x", "page=x"} {
		r.refused("GET", s+"/memories?"+query, "", 400, "invalid_request_error")
	}
}
