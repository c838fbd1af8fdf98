package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"mneme/memory"
	"mneme/server/access"
	"mneme/server/api"
	"mneme/server/history"
	"mneme/server/manage"
	"mneme/server/reply"
	"mneme/versionlog"
)

// state is what a library has, but for the store of the credentials, which notes when they were used.
func (r *rig) state() string {
	r.Helper()
	all, err := r.lib.AllStores(r.Context())
	r.must(err)
	var b strings.Builder
	for _, s := range all {
		if memory.IsHidden(s) {
			continue
		}
		st, err := r.lib.Open(r.Context(), s.ID, nil)
		r.must(err)
		tip, err := st.Tip(r.Context())
		r.must(err)
		fmt.Fprintf(&b, "%+v %+v\n", s, tip)
	}
	keys, err := r.registry.Keys(r.Context())
	r.must(err)
	for _, k := range keys {
		fmt.Fprintln(&b, k.ID, k.Label, k.Everywhere, k.Grants, k.Disabled, k.Expires)
	}
	return b.String()
}

// refusal is the type of the error that an answer is, which must have the published form.
func (r *rig) refusal(answer []byte, header http.Header) string {
	r.Helper()
	var e struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal(answer, &e); err != nil || e.Type != "error" || e.Error.Type == "" || e.Error.Message == "" ||
		e.RequestID == "" || header.Get("Request-Id") != e.RequestID || header.Get("Content-Type") != "application/json" {
		r.Errorf("no error of the published form: %v %.300q", header, answer)
	}
	return e.Error.Type
}

// TestBadBodies sends bodies that make no sense to every operation that takes one.
func TestBadBodies(t *testing.T) {
	r := newRig(t, Options{})
	admin := r.key(access.Admin, nil)
	st, err := r.lib.Open(t.Context(), r.store.ID, r.opts.Author)
	r.must(err)
	v, err := st.Write(t.Context(), "/a.md", []byte("text"), versionlog.ExpectAbsent())
	r.must(err)
	victim, _, err := r.registry.CreateKey(t.Context(), access.Key{Label: "victim", Everywhere: access.Read})
	r.must(err)
	fill := strings.NewReplacer("{store}", r.store.ID, "{memory}", v.MemoryID, "{version}", v.ID, "{key}", victim.ID)
	var routes [][2]string
	for _, one := range api.Routes {
		routes = append(routes, [2]string{one.Method, one.Path})
	}
	for _, one := range manage.Routes {
		routes = append(routes, [2]string{one.Method, one.Path})
	}
	for _, one := range history.Routes {
		routes = append(routes, [2]string{one.Method, one.Path})
	}
	bodies := []string{
		`{`, `{"`, `{"a"`, `}`, `nul`, `null`, `true`, `1`, `1e999`, `"text"`, `[]`, `[{}]`, `{}{}`, `{} x`, `{"a":}`, `{'a':1}`, `{"a":1,}`, "\x00", "\xff\xfe{}", "{\"\xff\":1}",
		`{"unknown":1}`, `{"name":1,"path":1,"content":1,"label":1,"token":1,"resources":1,"changes":1,"at":1}`,
		`{"name":[],"path":[],"content":[],"label":[],"token":[],"resources":[],"changes":[],"at":[]}`,
		`{"name":{},"path":{},"content":{},"label":{},"token":{},"resources":{},"changes":{},"at":{}}`,
		`{"name":"\ud800","path":"/\ud800","label":"\ud800"}`, `{"name":"a","name":"b","path":"/a","path":"/b","label":"a","label":"b"}`,
		strings.Repeat(`{"a":`, 100_000), strings.Repeat("[", 100_000), `{"a":"` + strings.Repeat("x", 5<<20) + `"}`, `{"a":[` + strings.Repeat("0,", 50_000) + `0]}`,
	}
	before := r.state()
	for _, route := range routes {
		if route[0] != "POST" && route[0] != "PATCH" {
			continue
		}
		for _, body := range bodies {
			w := r.ask(route[0], fill.Replace(route[1]), body, admin)
			if kind := r.refusal(w.Body.Bytes(), w.Header()); w.Code != 400 || kind != "invalid_request_error" {
				t.Errorf("%s %.60q: %d %s", route, body, w.Code, kind)
			}
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestPathsInEveryEncoding has no way of writing a path reach another operation, another store or a
// path that is none, and none send the client elsewhere.
func TestPathsInEveryEncoding(t *testing.T) {
	r := newRig(t, Options{})
	admin := r.key(access.Admin, nil)
	other, err := r.lib.CreateStore(t.Context(), "other", nil)
	r.must(err)
	reader := r.key(access.None, map[string]access.Right{r.store.ID: access.Admin})
	before := r.state()
	const stores = "/v1/memory_stores"
	get := func(target, secret string) (int, string) {
		t.Helper()
		q := httptest.NewRequest("GET", "/", nil)
		q.RequestURI = target
		var err error
		if q.URL, err = url.ParseRequestURI(target); err != nil {
			return 400, "" // as the listener says of it
		}
		q.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, q)
		if strings.Contains(w.Body.String(), "other") && secret == reader {
			t.Errorf("%s tells of another store: %s", target, w.Body)
		}
		if w.Code == 200 {
			return 200, ""
		}
		return w.Code, r.refusal(w.Body.Bytes(), w.Header())
	}
	in := stores + "/" + r.store.ID
	for _, target := range []string{
		stores + "/", stores + "//", "//v1/memory_stores", "/v1//memory_stores", "/v1/./memory_stores", "/v1/x/../memory_stores", "/./", "/..", "/%2e%2e/", "/v1/%2e%2e/v1/memory_stores",
		"/v1%2fmemory_stores", "/v1%5cmemory_stores", `/v1\memory_stores`, "/V1/memory_stores", "/v1/memory_stores%00", "/v1/memory_stores%20", "/v1/memory_stores;x=1", "/v1/memory_stores.json",
		"/v1/mneme", "/v1/mneme/", "/v1/mneme/gateway", "/v1/mneme/gateway/", "/v1", "/", "*", "", "http://localhost", "http://localhost//v1", "/%ff", "/%c0%af", "/%C0%AE%C0%AE/",
		in + "/..", in + "/%2e%2e/" + other.ID, in + "/%2e%2e%2f" + other.ID, in + "%2f..%2f" + other.ID, in + "/..;/" + other.ID, in + `/..\` + other.ID, in + "/..%5c" + other.ID, in + "/%252e%252e%252f" + other.ID,
		in + "/%c0%ae%c0%ae/" + other.ID, in + "/%c0%ae%c0%ae%c0%af" + other.ID, in + "/%e0%80%ae%e0%80%ae/" + other.ID, in + "/%uff0e%uff0e/" + other.ID, in + "%00", in + "%00/memories", in + "/memories%00", in + "/memories/%00",
		stores + "/%2e%2e%2fmemory_stores", stores + "/%252e", stores + "/" + other.ID + "%00" + r.store.ID, stores + "/.access", stores + "/access", stores + "/notes", stores + "/" + strings.ToUpper(r.store.ID),
		in + "/memories/mem_%f0%9f", in + "/memories/" + strings.Repeat("x", 10_000), in + "/memory_versions/%2e", in + "/memory_versions/memver_%0d%0aX: y",
	} {
		for _, secret := range []string{admin, reader} {
			if status, _ := get(target, secret); status != 404 && status != 400 {
				t.Errorf("%s: %d", target, status)
			}
		}
	}
	for prefix, status := range map[string]int{
		"/": 200, "": 200, "/a/": 200, "/caf%C3%A9/": 200, "/cafe%CC%81/": 200, `/a\b/`: 200, "/%252e%252e/": 200, "/a%3bb/": 200, "/a;b/": 400,
		"/../": 400, "/%2e%2e/": 400, "%2f..%2f": 400, "/a//": 400, "/a/./": 400, `\`: 400, `..\`: 400, "a/": 400, "/a": 400, "/%00/": 400, "/a%0a/": 400, "/%c0%ae%c0%ae/": 400, "/%ff/": 400, "/%e2%80%ae/": 400, "/%ed%a0%80/": 400,
	} {
		target := in + "/memories?path_prefix=" + prefix
		if got, _ := get(target, reader); got != status {
			t.Errorf("%s: %d, want %d", target, got, status)
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestBadTokens has tokens that are old, cut, changed, of another server or of a clock that is wrong
// open nothing.
func TestBadTokens(t *testing.T) {
	r, other := newRig(t, Options{}), newRig(t, Options{})
	writer := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	good, foreign := r.token(writer, access.Write), other.token(other.key(access.Admin, nil), access.Write)
	parts := strings.Split(good, ".")
	memories := "/v1/memory_stores/" + r.store.ID + "/memories"
	body := func(n int) string { return fmt.Sprintf(`{"path":"/%d.md","content":"x"}`, n) }
	before := r.state()
	for name, token := range map[string]string{
		"of another server": foreign, "empty": "", "dots": "..", "a word": "x", "no signature": parts[0] + "." + parts[1] + ".", "no head": "." + parts[1] + "." + parts[2],
		"other claims": parts[0] + "." + strings.Split(foreign, ".")[1] + "." + parts[2], "cut": good[:len(good)-1], "half": good[:len(good)/2], "longer": good + "A", "twice": good + "." + good, "padded": good + "=",
		"long": strings.Repeat("a", 9000) + ".b.c", "bits": strings.ToLower(good), "with a NUL": good + "\x00", "two schemes": "Bearer " + good,
	} {
		w := r.ask("POST", memories, body(0), token)
		if kind := r.refusal(w.Body.Bytes(), w.Header()); w.Code != 401 && w.Code != 429 || w.Code == 401 && kind != "authentication_error" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for i := range len(good) {
		changed := []byte(good)
		changed[i] ^= 1
		if _, err := r.registry.Caller(t.Context(), string(changed)); err == nil {
			t.Errorf("with another byte %d it counts", i)
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}

	// Another server over the same library has a clock of its own.
	r.now = r.now.Add(time.Minute)
	twin := &rig{T: t, lib: r.lib, store: r.store, now: r.now}
	var err error
	twin.Server, err = New(t.Context(), r.lib, &Options{Author: r.opts.Author, Now: func() time.Time { return twin.now }})
	r.must(err)
	t.Cleanup(twin.Close)
	for i, off := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		twin.now = r.now.Add(off)
		theirs := twin.token(writer, access.Write)
		for _, c := range []struct {
			at    *rig
			token string
		}{{r, good}, {r, theirs}, {twin, good}, {twin, theirs}} {
			if w := c.at.ask("POST", memories, body(i+1), c.token); w.Code != 200 && w.Code != 409 {
				t.Errorf("with a clock that is off by %v: %d %s", off, w.Code, w.Body)
			}
		}
	}
	before = r.state()
	r.now = r.now.Add(access.MaxTokenAge)
	twin.now = r.now.Add(5 * time.Minute)
	for _, at := range []*rig{r, twin} {
		w := at.ask("POST", memories, body(3), good)
		if kind := r.refusal(w.Body.Bytes(), w.Header()); w.Code != 401 || kind != "authentication_error" {
			t.Errorf("an expired token: %d %s", w.Code, w.Body)
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestRequestEnds has a request whose time is over, or whose client has gone, end as one that may be made
// again.
func TestRequestEnds(t *testing.T) {
	r := newRig(t, Options{RequestTimeout: time.Millisecond})
	secret := r.key(access.Read, nil)
	r.handler = r.wrap(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		<-q.Context().Done()
		reply.Error(w, q, slog.New(slog.DiscardHandler), q.Context().Err())
	}))
	for _, body := range []string{"", "{}"} {
		w := r.ask("POST", "/", body, secret)
		if kind := r.refusal(w.Body.Bytes(), w.Header()); w.Code != 503 || kind != "overloaded_error" || !strings.Contains(w.Body.String(), "not answered in time") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestCompressedBody: a body that is compressed is refused as such, with a text that says so.
func TestCompressedBody(t *testing.T) {
	r := newRig(t, Options{})
	admin := r.key(access.Admin, nil)
	for _, path := range []string{"/v1/memory_stores", "/v1/mneme/keys", "/v1/mneme/tools/memory"} {
		for encoding, status := range map[string]int{"gzip": 415, "gzip, identity": 415, "Identity": 200} {
			w := r.ask("POST", path, `{"name":"x","label":"x"}`, admin, func(q *http.Request) { q.Header.Set("Content-Encoding", encoding) })
			if refused := w.Code == 415; refused != (status == 415) {
				t.Errorf("%s, %s: %d %s", path, encoding, w.Code, w.Body)
			} else if refused && (r.refusal(w.Body.Bytes(), w.Header()) != "invalid_request_error" || !strings.Contains(w.Body.String(), "Content-Encoding")) {
				t.Errorf("%s, %s: %s", path, encoding, w.Body)
			}
		}
	}
}
