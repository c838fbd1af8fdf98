// Package sdk tests `mneme serve` with the SDKs that the memory-stores API is made for, of both its
// envelopes. It is a module of its own: mneme itself does not depend on them.
package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSDKs has each SDK do all that there is to do, at one server.
func TestSDKs(t *testing.T) {
	s := serve(t)
	for _, one := range []struct {
		name    string
		open    func(t *testing.T, url string) client
		creates bool
	}{
		{"Go v1.84.0", func(_ *testing.T, url string) client { return newGoV1(url) }, true},
		{"Go v2.14.0", func(_ *testing.T, url string) client { return newGoV2(url) }, false},
		{"npm 0.137.0", func(t *testing.T, url string) client { return newNode(t, "anthropic-sdk-0.137", url) }, true},
		{"npm 1.13.0", func(t *testing.T, url string) client { return newNode(t, "anthropic-sdk-1.13", url) }, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			w := s.wire(t)
			r := &rig{T: t, client: one.open(t, w.URL), served: s, wire: w, throws: strings.HasPrefix(one.name, "npm")}
			r.stores()
			r.lists()
			r.versions(r.changes())
			r.retries(one.creates)
			r.ends()
		})
	}
}

// TestGoClients holds the clients of both versions of the Go SDK to be the same.
func TestGoClients(t *testing.T) {
	v1, err1 := os.ReadFile("gov1_test.go")
	v2, err2 := os.ReadFile("gov2_test.go")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	plain := strings.NewReplacer("sdk-go/v2", "sdk-go", "V1", "V", "V2", "V")
	if plain.Replace(string(v1)) != plain.Replace(string(v2)) {
		t.Error("gov1_test.go and gov2_test.go differ in more than the version")
	}
}

// rig is an SDK at work in a store.
type rig struct {
	*testing.T
	client
	*served
	wire   *wire
	throws bool // a class of its own for each status
	store  string
}

// ask makes a call in the store, with a key that may do everything, unless it says otherwise.
func (r *rig) ask(c call) (answer, *failure) {
	if c.Credential == "" {
		c.Credential = r.secret
	}
	switch group, method, _ := strings.Cut(c.Op, "."); {
	case c.ID != "" && group != "stores":
		c.Params.StoreID = r.store
	case c.ID == "" && (group != "stores" || method != "create" && method != "list"):
		c.ID = r.store
	}
	return r.do(r.Context(), c)
}

// all makes a call that succeeds.
func (r *rig) all(c call) answer {
	r.Helper()
	a, f := r.ask(c)
	if f != nil {
		r.Fatalf("%s %s: %+v", c.Op, c.ID, f)
	}
	return a
}

// ok makes a call that is answered by one object.
func (r *rig) ok(op, id string, p params) object {
	r.Helper()
	return r.all(call{Op: op, ID: id, Params: p}).Data[0]
}

// create makes a memory.
func (r *rig) create(path, content string) object {
	r.Helper()
	return r.ok("memories.create", "", params{Path: path, Content: &content})
}

var classes = map[int]string{400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError", 409: "ConflictError"}

// refused makes a call that ends, after one request, with a status and a type of error.
func (r *rig) refused(c call, status int, kind string) *failure {
	r.Helper()
	before := r.wire.count()
	_, f := r.ask(c)
	switch {
	case f == nil:
		r.Fatalf("%s %s: not refused, want %d %s", c.Op, c.ID, status, kind)
	case f.Status != status || f.Type != kind || !strings.HasPrefix(f.RequestID, "req_") || r.throws && f.Class != classes[status]:
		r.Errorf("%s %s: %+v, want %d %s", c.Op, c.ID, f, status, kind)
	case r.wire.count() != before+1:
		r.Errorf("%s %s: %d requests", c.Op, c.ID, r.wire.count()-before)
	}
	return f
}

// stores makes stores, describes and lists them.
func (r *rig) stores() {
	other := r.ok("stores.create", "", params{Name: r.Name() + " 2"})
	made := r.ok("stores.create", "", params{Name: r.Name(), Description: "of a test", Metadata: map[string]string{"k": "v"}})
	r.store = made.ID
	if made.Type != "memory_store" || made.Description != "of a test" || made.CreatedAt.IsZero() || !made.ArchivedAt.IsZero() {
		r.Errorf("%+v", made)
	}
	if s := r.ok("stores.update", "", params{Description: "changed", Metadata: map[string]string{"l": "w"}}); s.Name != r.Name() || s.Description != "changed" || fmt.Sprint(s.Metadata) != "map[k:v l:w]" {
		r.Errorf("%+v", s)
	}
	if s := r.ok("stores.retrieve", "", params{}); s.ID != made.ID || s.Description != "changed" {
		r.Errorf("%+v", s)
	}
	r.ok("stores.archive", other.ID, params{})
	has := func(p params, store string) bool {
		a := r.all(call{Op: "stores.list", Params: p, All: true})
		return slices.ContainsFunc(a.Data, func(s object) bool { return s.ID == store })
	}
	past := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	if !has(params{Limit: 1}, made.ID) || has(params{Limit: 1}, other.ID) || !has(params{IncludeArchived: true}, other.ID) || !has(params{From: past}, made.ID) || has(params{To: past}, made.ID) {
		r.Error("the lists of stores are others")
	}
	r.refused(call{Op: "stores.create", Params: params{Name: strings.Repeat("x", 256)}}, 400, "invalid_request_error")
	r.refused(call{Op: "stores.list", Credential: "guess"}, 401, "authentication_error")
	r.refused(call{Op: "stores.retrieve", ID: "memstore_none"}, 404, "not_found_error")
}

// lists makes memories, and reads them in pages.
func (r *rig) lists() {
	for i := range 7 {
		r.create(fmt.Sprintf("/notes/n %d.md", i), "text")
	}
	r.create("/top.md", "")
	paths := func(p params) (all []string) {
		r.Helper()
		for _, m := range r.all(call{Op: "memories.list", Params: p, All: true}).Data {
			all = append(all, m.Path+m.Content)
		}
		return all
	}
	before := r.wire.count()
	if got := paths(params{Limit: 3}); len(got) != 8 || got[0] != "/notes/n 0.md" || got[7] != "/top.md" || r.wire.count() != before+3 {
		r.Errorf("%q in %d requests", got, r.wire.count()-before)
	}
	if got := fmt.Sprint(paths(params{Depth: 1})); got != "[/notes/ /top.md]" {
		r.Error(got)
	}
	if got := paths(params{PathPrefix: "/notes/", View: "full", Limit: 20}); len(got) != 7 || got[6] != "/notes/n 6.mdtext" {
		r.Errorf("%q", got)
	}
	page := r.all(call{Op: "memories.list", Params: params{Limit: 5}})
	rest := r.all(call{Op: "memories.list", Params: params{Limit: 5, Page: page.NextPage}})
	if len(page.Data) != 5 || len(rest.Data) != 3 || rest.NextPage != "" || rest.Data[0].Path != "/notes/n 5.md" {
		r.Errorf("%+v, then %+v", page, rest)
	}
	r.refused(call{Op: "memories.list", Params: params{View: "full", Limit: 21}}, 400, "invalid_request_error")
	r.refused(call{Op: "memories.list", Params: params{PathPrefix: "/notes"}}, 400, "invalid_request_error")
	taken := "x"
	f := r.refused(call{Op: "memories.create", Params: params{Path: "/top.md", Content: &taken}}, 409, "memory_path_conflict_error")
	if !bytes.Contains(f.Body, []byte(`"conflicting_path":"/top.md"`)) {
		r.Errorf("%s", f.Body)
	}
	r.refused(call{Op: "memories.create", Params: params{Path: "/top.md/x", Content: &taken}}, 409, "memory_path_conflict_error")
	r.refused(call{Op: "memories.create", Params: params{Path: "top.md", Content: &taken}}, 400, "invalid_request_error")
}

// changes updates, renames and deletes a memory, and returns it as it was made.
func (r *rig) changes() object {
	first := r.create("/a.md", "one")
	if first.Content != "" || first.Size != 3 || first.StoreID != r.store || first.Type != "memory" {
		r.Errorf("%+v", first)
	}
	if m := r.ok("memories.retrieve", first.ID, params{}); m.Content != "one" || m.SHA256 != first.SHA256 {
		r.Errorf("%+v", m)
	}
	if m := r.ok("memories.retrieve", first.ID, params{View: "basic"}); m.Content != "" || m.SHA256 != first.SHA256 {
		r.Errorf("%+v", m)
	}
	other, third := "other", "third"
	if m := r.ok("memories.update", first.ID, params{Path: "/b.md"}); m.Path != "/b.md" || m.SHA256 != first.SHA256 || m.ID != first.ID {
		r.Errorf("%+v", m)
	}
	both := params{Path: "/moved.md", Content: &other, View: "full", Precondition: &precondition{"content_sha256", first.SHA256}}
	moved := r.ok("memories.update", first.ID, both)
	if moved.Path != "/moved.md" || moved.Content != "other" || !moved.CreatedAt.Equal(first.CreatedAt) {
		r.Errorf("%+v", moved)
	}
	if again := r.ok("memories.update", first.ID, both); again.VersionID != moved.VersionID {
		r.Errorf("the same update made %s and %s", moved.VersionID, again.VersionID)
	}
	both.Content = &third
	r.refused(call{Op: "memories.update", ID: first.ID, Params: both}, 409, "memory_precondition_failed_error")
	r.refused(call{Op: "memories.update", ID: first.ID, Params: params{Path: "/top.md"}}, 409, "memory_path_conflict_error")
	r.refused(call{Op: "memories.delete", ID: first.ID, Params: params{ExpectedSHA256: first.SHA256}}, 409, "memory_precondition_failed_error")
	r.refused(call{Op: "memoryVersions.redact", ID: moved.VersionID}, 409, "conflict_error")
	if gone := r.ok("memories.delete", first.ID, params{ExpectedSHA256: moved.SHA256}); gone.ID != first.ID || gone.Type != "memory_deleted" {
		r.Errorf("%+v", gone)
	}
	r.refused(call{Op: "memories.retrieve", ID: first.ID}, 404, "not_found_error")
	return first
}

// token makes the token of a session that may write in the store, or only read.
func (r *rig) token(id, access string) string {
	r.Helper()
	body := fmt.Sprintf(`{"session_id":%q,"resources":[{"memory_store_id":%q,"access":%q}]}`, id, r.store, access)
	q, err := http.NewRequestWithContext(r.Context(), "POST", r.wire.URL+"/v1/mneme/sessions", strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.secret)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer a.Body.Close()
	var s struct{ Token string }
	if err := json.NewDecoder(a.Body).Decode(&s); err != nil || s.Token == "" {
		r.Fatalf("%s: %v", a.Status, err)
	}
	return s.Token
}

// versions reads the history of a memory that is gone, by every filter, and redacts a version of it.
func (r *rig) versions(first object) {
	content := "by a session"
	in := call{Op: "memories.create", Params: params{Path: "/session.md", Content: &content}, Credential: r.token("agent-7", "read_write")}
	by := r.all(in).Data[0]
	in.Credential = r.token("agent-8", "read_only")
	r.refused(in, 403, "permission_error")
	past, future := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, one := range []struct {
		of   params
		want int
	}{
		{params{}, 13}, {params{MemoryID: first.ID}, 4}, {params{MemoryID: first.ID, View: "full"}, 4}, {params{MemoryID: "mem_none"}, 0},
		{params{Operation: "created"}, 10}, {params{Operation: "modified"}, 2}, {params{Operation: "deleted"}, 1},
		{params{SessionID: "agent-7"}, 1}, {params{SessionID: "agent-8"}, 0}, {params{APIKeyID: r.keyID}, 12}, {params{ServiceAccountID: r.keyID}, 0},
		{params{From: past}, 13}, {params{From: future}, 0}, {params{To: past}, 0}, {params{To: future, Operation: "deleted"}, 1},
	} {
		one.of.Limit = 5
		got := r.all(call{Op: "memoryVersions.list", Params: one.of, All: true}).Data
		if len(got) != one.want || !slices.IsSortedFunc(got, func(a, b object) int { return strings.Compare(b.ID, a.ID) }) {
			r.Errorf("%+v: %d versions, want %d: %+v", one.of, len(got), one.want, got)
		}
	}
	var ops []string
	for _, v := range r.all(call{Op: "memoryVersions.list", Params: params{MemoryID: first.ID, View: "full"}}).Data {
		ops = append(ops, v.Operation+" "+v.Path+" "+v.Content)
	}
	if got := fmt.Sprintf("%q", ops); got != `["deleted /moved.md " "modified /moved.md other" "modified /b.md one" "created /a.md one"]` {
		r.Error(got)
	}
	v := r.ok("memoryVersions.retrieve", by.VersionID, params{})
	if v.Content != content || v.MemoryID != by.ID || v.CreatedBy != (actor{Type: "session_actor", SessionID: "agent-7"}) || !v.RedactedAt.IsZero() {
		r.Errorf("%+v", v)
	}
	erased := r.ok("memoryVersions.redact", first.VersionID, params{})
	if erased.RedactedAt.IsZero() || erased.Path != "" || erased.SHA256 != "" || erased.RedactedBy != (actor{Type: "api_actor", APIKeyID: r.keyID}) {
		r.Errorf("%+v", erased)
	}
	if v := r.ok("memoryVersions.retrieve", first.VersionID, params{}); !v.RedactedAt.Equal(erased.RedactedAt) || v.Content != "" {
		r.Errorf("%+v", v)
	}
}

// retries counts requests that meet a fault. creates says that the SDK makes a creation again that was
// answered 500, or not at all.
func (r *rig) retries(creates bool) {
	m := r.create("/retried.md", "0")
	content := "1"
	update := call{Op: "memories.update", ID: m.ID, Params: params{Content: &content, Precondition: &precondition{"content_sha256", m.SHA256}}}
	twice := func(f fault, c call) object {
		r.Helper()
		before := r.wire.count()
		r.wire.next(f)
		a := r.all(c)
		if n := r.wire.count() - before; n != 2 {
			r.Errorf("%s with fault %d: %d requests", c.Op, f, n)
		}
		return a.Data[0]
	}
	twice(fails, call{Op: "memories.retrieve", ID: m.ID})
	twice(reset, call{Op: "memories.list"})
	first := twice(lost, update)
	if again := twice(fails, update); again.VersionID != first.VersionID {
		r.Errorf("an update whose answer was lost made %s and %s", first.VersionID, again.VersionID)
	}
	create := func(path string, f fault, once string) (made object, failed *failure, requests int) {
		before := r.wire.count()
		r.wire.next(f)
		a, failed := r.ask(call{Op: "memories.create", Params: params{Path: path, Content: &content}, Once: once})
		if failed == nil {
			made = a.Data[0]
		}
		return made, failed, r.wire.count() - before
	}
	_, failed, n := create("/failed.md", fails, "")
	if (failed == nil) != creates || (n == 2) != creates {
		r.Errorf("a creation that was answered 500: %+v after %d requests", failed, n)
	}
	_, failed, n = create("/lost.md", lost, "")
	if failed == nil || (failed.Type == "memory_path_conflict_error") != creates || (n == 2) != creates {
		r.Errorf("a creation whose answer was lost: %+v after %d requests", failed, n)
	}
	made, failed, n := create("/once.md", lost, "key")
	if (failed == nil) != creates || (n == 2) != creates {
		r.Errorf("a creation with a key whose answer was lost: %+v after %d requests", failed, n)
	}
	if again, failed, _ := create("/once.md", none, "key"); failed != nil || made.ID != "" && again.VersionID != made.VersionID {
		r.Errorf("a creation with a key that comes again: %+v, %+v", failed, again)
	}
}

// ends archives and deletes the store.
func (r *rig) ends() {
	if s := r.ok("stores.archive", "", params{}); s.ArchivedAt.IsZero() {
		r.Errorf("%+v", s)
	}
	content := "x"
	r.refused(call{Op: "memories.create", Params: params{Path: "/late.md", Content: &content}}, 400, "invalid_request_error")
	if s := r.ok("stores.delete", "", params{}); s.ID != r.store || s.Type != "memory_store_deleted" {
		r.Errorf("%+v", s)
	}
	r.refused(call{Op: "stores.retrieve"}, 404, "not_found_error")
}
