package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/errkind"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/manage"
	"mneme/server/reply"
	"mneme/versionlog"
)

// TestSessions has a token write in the name of its session and key, whatever the request says.
func TestSessions(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	w := r.ask("POST", "/v1/mneme/sessions", `{"session_id":"sess-7","expires_in":60,"max_calls":4,"resources":[{"name":"notes","access":"read_write","instructions":"Keep it short."}]}`, secret)
	var s struct {
		ID        string    `json:"id"`
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
		Resources []struct {
			StoreID   string `json:"memory_store_id"`
			MountPath string `json:"mount_path"`
		} `json:"resources"`
		Note string `json:"note"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	res := s.Resources[0]
	if s.ID != "sess-7" || !s.ExpiresAt.Equal(r.now.Add(time.Minute)) || res.MountPath != "/mnt/memory/notes" || res.StoreID != r.store.ID || !strings.Contains(s.Note, "Keep it short.") {
		t.Errorf("%s", w.Body)
	}
	memories := "/v1/memory_stores/" + r.store.ID + "/memories"
	w = r.ask("POST", memories, `{"path":"/a.md","content":"x"}`, s.Token, func(q *http.Request) { q.Header.Set("X-Session-Id", "sess-other") })
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	st, err := r.lib.Open(t.Context(), r.store.ID, nil)
	r.must(err)
	v, err := st.Head(t.Context(), "/a.md")
	r.must(err)
	if v.Session != "sess-7" || v.Actor != (versionlog.Actor{Kind: versionlog.ActorSession, ID: "sess-7"}) {
		t.Errorf("%+v", v)
	}
	w = r.ask("GET", "/v1/memory_stores/"+r.store.ID+"/memory_versions?session_id=sess-7", "", s.Token)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"created_by":{"session_id":"sess-7","type":"session_actor"},"session_id":"sess-7"`) || strings.Count(w.Body.String(), `"memver_`) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for range 2 {
		if w = r.ask("GET", memories, "", s.Token); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if w = r.ask("GET", memories, "", s.Token); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "4 calls") {
		t.Errorf("the fifth call: %d %s", w.Code, w.Body)
	}
	if w = r.ask("POST", "/v1/mneme/sessions/revoke", `{"token":"`+s.Token+`"}`, secret); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w = r.ask("GET", memories, "", s.Token); w.Code != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", w.Code)
	}
	for body, status := range map[string]int{
		`{"resources":[]}`: 400, `{}`: 400, `{"resources":[{"name":"other"}]}`: 404, `{"resources":[{"name":"notes","access":"admin"}]}`: 400,
		`{"resources":[{"name":"notes"},{"memory_store_id":"` + r.store.ID + `"}]}`: 400, `{"expires_in":3601,"resources":[{"name":"notes"}]}`: 400,
		`{"session_id":"a\nb","resources":[{"name":"notes"}]}`: 400, `{"resources":[{"name":"notes","prefix":"/a"}]}`: 400, `{"resources":[{"name":".access"}]}`: 404,
	} {
		if w = r.ask("POST", "/v1/mneme/sessions", body, secret); w.Code != status {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, status)
		}
	}
}

// TestBudgetOfBytes counts what is read and written, and refuses once it is used up.
func TestBudgetOfBytes(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.None, map[string]access.Right{r.store.ID: access.Write})
	c, err := r.registry.Caller(t.Context(), secret)
	r.must(err)
	token, _, _, err := r.registry.NewToken(t.Context(), c, access.Session{Grants: map[string]access.Right{r.store.ID: access.Write}, MaxBytes: 1000})
	r.must(err)
	path := "/v1/memory_stores/" + r.store.ID
	n := 0
	for ; n < 20 && r.ask("GET", path, "", token).Code == 200; n++ {
	}
	if n < 2 || n > 5 {
		t.Errorf("%d answers for 1000 bytes", n)
	}
	if w := r.ask("POST", path+"/memories", `{"path":"/a.md","content":"x"}`, token); w.Code != http.StatusTooManyRequests {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHidden has no word find the store of the credentials.
func TestHidden(t *testing.T) {
	r := newRig(t, Options{})
	all, err := r.lib.AllStores(t.Context())
	r.must(err)
	for _, s := range all {
		if !memory.IsHidden(s) {
			continue
		}
		for _, ref := range []string{s.ID, s.Slug, s.Name} {
			if _, err := r.lib.FindStore(t.Context(), ref); !errors.Is(err, memory.ErrNoStore) {
				t.Errorf("%s: %v", ref, err)
			}
		}
		w := r.ask("GET", "/v1/memory_stores/"+s.ID, "", r.key(access.Admin, nil))
		if w.Code != 404 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		return
	}
	t.Error("there is no hidden store")
}

// TestNamesOfOthers has a caller learn and take nothing by the names of stores that it does not see.
func TestNamesOfOthers(t *testing.T) {
	r := newRig(t, Options{})
	other, err := r.lib.CreateStore(t.Context(), "secret plans", nil)
	r.must(err)
	name := "secret plans"
	_, err = r.lib.UpdateStore(t.Context(), r.store.ID, versionlog.StoreUpdate{Name: &name}, r.opts.Author.Actor)
	r.must(err)
	for _, id := range []string{r.store.ID, other.ID} {
		w := r.ask("POST", "/v1/mneme/sessions", `{"resources":[{"name":"secret plans"}]}`, r.key(access.None, map[string]access.Right{id: access.Write}))
		if w.Code != 200 || !strings.Contains(w.Body.String(), id) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestDeniedByBackend tells no client what a backend denies to the server.
func TestDeniedByBackend(t *testing.T) {
	r := newRig(t, Options{})
	r.handler = r.wrap(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		reply.Error(w, q, slog.New(slog.DiscardHandler), errkind.New(errkind.Denied, "these credentials may not dynamodb:GetItem"))
	}))
	if w := r.ask("GET", "/", "", r.key(access.Read, nil)); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "dynamodb") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestKeyRoutes manages keys as an admin does.
func TestKeyRoutes(t *testing.T) {
	r := newRig(t, Options{})
	admin := r.key(access.Admin, nil)
	do := func(method, path, body string) manage.KeyJSON {
		t.Helper()
		w := r.ask(method, path, body, admin)
		var k manage.KeyJSON
		if err := json.Unmarshal(w.Body.Bytes(), &k); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return k
	}
	k := do("POST", "/v1/mneme/keys", `{"label":"ci","expires_in":60,"grants":[{"memory_store_id":"`+r.store.ID+`","right":"read"}]}`)
	get := "/v1/memory_stores/" + r.store.ID
	if w := r.ask("GET", get, "", k.Secret); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := do("GET", "/v1/mneme/keys/"+k.ID, ""); got.Secret != "" || got.Label != "ci" || got.Grants[0].Right != "read" {
		t.Errorf("%+v", got)
	}
	do("POST", "/v1/mneme/keys/"+k.ID+"/disable", "")
	if w := r.ask("GET", get, "", k.Secret); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	do("POST", "/v1/mneme/keys/"+k.ID+"/enable", "")
	second := do("POST", "/v1/mneme/keys/"+k.ID+"/rotate", "")
	if a, b := r.ask("GET", get, "", k.Secret), r.ask("GET", get, "", second.Secret); a.Code != 401 || b.Code != 200 {
		t.Errorf("%d, %d", a.Code, b.Code)
	}
	if w := r.ask("GET", "/v1/mneme/keys", "", admin); strings.Contains(w.Body.String(), "secret") || strings.Count(w.Body.String(), `"api_key"`) != 2 {
		t.Errorf("%s", w.Body)
	}
	do("DELETE", "/v1/mneme/keys/"+k.ID, "")
	if w := r.ask("GET", "/v1/mneme/keys/"+k.ID, "", admin); w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for body, want := range map[string]string{
		`{"label":"x"}`: "reaches nothing", `{"label":"x","grants":[{"memory_store_id":"notes","right":"none"}]}`: "reaches nothing",
		`{"label":"a\nb","everywhere":"read"}`: "control or format characters", `{"label":"a\u202eb","everywhere":"read"}`: "control or format characters",
	} {
		if w := r.ask("POST", "/v1/mneme/keys", strings.ReplaceAll(body, `"notes"`, `"`+r.store.ID+`"`), admin); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	for _, body := range []string{`{"label":""}`, `{"label":"x","everywhere":"god"}`, `{"label":"x","expires_in":0}`, `{"label":"x","grants":[{"memory_store_id":"memstore_x"}]}`, `{"label":"x","scope":"all"}`} {
		if w := r.ask("POST", "/v1/mneme/keys", body, admin); w.Code != 400 && w.Code != 404 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// TestHostsAndOrigins refuses requests that a web page may have made.
func TestHostsAndOrigins(t *testing.T) {
	r := newRig(t, Options{Hosts: []string{"localhost", "::1"}, Origins: []string{"https://console.example"}})
	admin := r.key(access.Admin, nil)
	for host, status := range map[string]int{"localhost": 200, "LOCALHOST:7070": 200, "localhost.": 200, "[::1]:7070": 200, "evil.example": 403, "localhost.evil.example": 403, "": 403} {
		as := func(q *http.Request) { q.Host = host }
		if w := r.ask("GET", "/v1/memory_stores", "", admin, as); w.Code != status {
			t.Errorf("%q: %d", host, w.Code)
		}
		if w := r.ask("GET", "/readyz", "", "", as); w.Code != 200 { // a balancer's probe, which has no name
			t.Errorf("a probe of %q: %d", host, w.Code)
		}
	}
	origin := func(o string) func(*http.Request) {
		return func(q *http.Request) { q.Host = "localhost"; q.Header.Set("Origin", o) }
	}
	for o, status := range map[string]int{"https://console.example": 200, "https://console.example.evil": 403, "null": 403, "http://localhost": 403} {
		w := r.ask("GET", "/healthz", "", "", origin(o))
		if w.Code != status || (w.Header().Get("Access-Control-Allow-Origin") == o) != (status == 200) {
			t.Errorf("%q: %d %v", o, w.Code, w.Header())
		}
	}
	two := func(q *http.Request) {
		q.Header["Origin"] = []string{"https://console.example", "https://evil.example"}
	}
	if w := r.ask("GET", "/healthz", "", "", origin(""), two); w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("two origins: %d %v", w.Code, w.Header())
	}
	const asked = "authorization,last-event-id,x-stainless-lang" // as SDKs and clients of events send them
	w := r.ask("OPTIONS", "/v1/memory_stores", "", "", origin("https://console.example"), func(q *http.Request) {
		q.Header.Set("Access-Control-Request-Method", "POST")
		q.Header.Set("Access-Control-Request-Headers", asked)
	})
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Credentials") != "" || w.Header().Get("Access-Control-Allow-Headers") != asked {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, name := range []string{"Request-Id", "Retry-After", "X-Should-Retry"} { // which clients go by
		if !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("%s is not told to pages: %v", name, w.Header())
		}
	}
	r = newRig(t, Options{BasePath: "/memory/"})
	for path, status := range map[string]int{"/memory/healthz": 200, "/healthz": 404, "/memoryhealthz": 404, "/memory/v1/memory_stores": 401, "/memory": 401, "/memory//v1/memory_stores": 404, "/memory/v1/../v1/memory_stores": 404} {
		if w := r.ask("GET", path, "", ""); w.Code != status {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestGuessing slows an address that guesses, and none of those behind it whose credentials count.
func TestGuessing(t *testing.T) {
	r := newRig(t, Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	good := r.key(access.Read, nil)
	from := func(remote, forwarded string) func(*http.Request) {
		return func(q *http.Request) {
			q.RemoteAddr = remote + ":1234"
			if forwarded != "" {
				q.Header.Set("X-Forwarded-For", forwarded)
			}
		}
	}
	get := func(secret string, edit func(*http.Request)) int {
		return r.ask("GET", "/v1/memory_stores", "", secret, edit).Code
	}
	one := from("192.0.2.1", "")
	for i := range freeFailures {
		if got := get("mneme_x_y", one); got != 401 {
			t.Fatalf("guess %d: %d", i, got)
		}
	}
	if w := r.ask("GET", "/v1/memory_stores", "", "mneme_x_y", one); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for name, c := range map[string]struct {
		secret string
		edit   func(*http.Request)
		want   int
	}{
		"a key that counts, from there": {good, one, 200},
		"no credential, from there":     {"", one, 401},
		"another address":               {"mneme_x_y", from("192.0.2.2", ""), 401},
		"that address by a proxy":       {"mneme_x_y", from("10.0.0.1", "198.51.100.9, 192.0.2.1"), 429},
		"another that claims it":        {"mneme_x_y", from("203.0.113.1", "192.0.2.1"), 401},
		"a claim behind the proxy":      {"mneme_x_y", from("10.0.0.1", "192.0.2.1, 198.51.100.9"), 401},
	} {
		if got := get(c.secret, c.edit); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	r.now = r.now.Add(2 * time.Second)
	if got := get("mneme_x_y", one); got != 401 {
		t.Errorf("after the wait: %d", got)
	}
	if w := r.ask("GET", "/v1/memory_stores", "", "mneme_x_y", one); w.Header().Get("Retry-After") != "2" {
		t.Errorf("the wait has not doubled: %v", w.Header())
	}
	if bucket("2001:db8::1") != bucket("2001:db8::ffff:2") || bucket("2001:db8::1") == bucket("2001:db8:0:1::1") {
		t.Error("the addresses of one network of IPv6 are to count as one")
	}
	known := &throttle{now: time.Now}
	for range maxKnown + 10 {
		known.failed(rand.Text())
	}
	if n := len(known.failures); n > maxKnown {
		t.Errorf("%d addresses are known", n)
	}
}

// TestTooMany bounds what is under way, of one caller and of all.
func TestTooMany(t *testing.T) {
	r := newRig(t, Options{MaxPerCaller: 1})
	one, other := r.key(access.Read, nil), r.key(access.Read, nil)
	began, end := make(chan struct{}), make(chan struct{})
	r.handler = r.wrap(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			close(began)
			<-end
		}
	}))
	done := make(chan int)
	go func() { done <- r.ask("GET", "/slow", "", one).Code }()
	<-began
	if w := r.ask("GET", "/", "", one); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d", w.Code)
	}
	if w := r.ask("GET", "/", "", other); w.Code != 200 {
		t.Errorf("another caller: %d", w.Code)
	}
	close(end)
	if got := <-done; got != 200 {
		t.Error(got)
	}
	if w := r.ask("GET", "/", "", one); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
}

// TestPanic has a fault end its own request only, and the log has neither credential nor content.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	secret := r.key(access.Admin, nil)
	r.handler = r.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault") }))
	w := r.ask("GET", "/x?path=/secret.md", "", secret)
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"api_error"`) || strings.Contains(w.Body.String(), "a fault") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if text := log.String(); !strings.Contains(text, "a fault") || !strings.Contains(text, `"status":500`) || strings.Contains(text, secret) || strings.Contains(text, "secret.md") {
		t.Errorf("%s", text)
	}
}

// TestServe goes through the life of a server on a socket of each kind: it answers, finishes what
// is under way when it is to end, and takes no more.
func TestServe(t *testing.T) {
	for _, kind := range []string{"tcp", "unix"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, Options{})
			secret := r.key(access.Read, nil)
			address := "127.0.0.1:0"
			if kind == "unix" {
				address = UnixPrefix + filepath.Join(t.TempDir(), "s")
			}
			l, err := Listen(address)
			r.must(err)
			began, end := make(chan struct{}), make(chan struct{})
			inner := r.handler
			r.handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/slow" {
					close(began)
					<-end
					q.URL.Path = "/v1/memory_stores"
				}
				inner.ServeHTTP(w, q)
			})
			until, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- r.Serve(until, l) }()
			client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, l.Addr().Network(), l.Addr().String())
			}}}
			get := func(path string) (int, error) {
				q, err := http.NewRequest("GET", "http://localhost"+path, nil)
				r.must(err)
				q.Header.Set("X-Api-Key", secret)
				a, err := client.Do(q)
				if err != nil {
					return 0, err
				}
				defer a.Body.Close()
				_, err = io.Copy(io.Discard, a.Body)
				return a.StatusCode, err
			}
			if status, err := get("/v1/memory_stores"); err != nil || status != 200 {
				t.Fatalf("%d %v", status, err)
			}
			if status, err := get("/readyz"); err != nil || status != 200 {
				t.Fatalf("%d %v", status, err)
			}
			if kind == "unix" {
				if _, err := Listen(address); err == nil {
					t.Error("two listen at one socket")
				}
				if info, err := os.Stat(l.Addr().String()); err != nil || info.Mode().Perm()&0o007 != 0 {
					t.Errorf("%v %v", info.Mode(), err)
				}
			}
			slow := make(chan int)
			go func() { status, _ := get("/slow"); slow <- status }()
			<-began
			stop()
			for !r.ending.Load() {
				time.Sleep(time.Millisecond)
			}
			if r.ready(t.Context()) == nil {
				t.Error("a server that ends is ready")
			}
			close(end)
			if got := <-slow; got != 200 {
				t.Errorf("what was under way: %d", got)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			if _, err := get("/healthz"); err == nil {
				t.Error("it still answers")
			}
		})
	}
}
