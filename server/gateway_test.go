package server

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/versionlog"
)

// proposal is the body of a commit.
func (r *rig) proposal(path, content string) string {
	r.Helper()
	body, err := wire.EncodeProposal(&versionlog.Proposal{
		Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"},
		Changes: []versionlog.Change{{
			Action: versionlog.Put, Path: path, Digest: cas.Sum([]byte(content)), Size: int64(len(content)), Content: []byte(content), Expect: versionlog.ExpectAny(),
		}},
	})
	r.must(err)
	return string(body)
}

// halves is a body that has something happen in its middle.
func halves(text string, between func()) io.Reader {
	return io.MultiReader(strings.NewReader(text[:len(text)/2]), reads(between), strings.NewReader(text[len(text)/2:]))
}

type reads func()

func (f reads) Read([]byte) (int, error) { f(); return 0, io.EOF }

// TestRevokedWhileSent has a credential end, or count for less, while the body of a request comes that
// would change something.
func TestRevokedWhileSent(t *testing.T) {
	r := newRig(t, Options{})
	ask := func(op, body, secret string, between func()) *httptest.ResponseRecorder {
		q := httptest.NewRequest(http.MethodPost, wire.Prefix+op, halves(body, between))
		q.ContentLength = int64(len(body))
		q.Header.Set("Authorization", "Bearer "+secret)
		q.Header.Set(wire.StoreHeader, r.store.ID)
		q.Header.Set(wire.DigestHeader, cas.Sum([]byte(body)).String())
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, q)
		return w
	}
	for op, body := range map[string]string{
		wire.OpCommit: r.proposal("/a.md", "x"), wire.OpPutBlob: "blob", wire.OpPurge: `{"store":"` + r.store.ID + `"}`,
		wire.OpDeleteStore: `{"store":"` + r.store.ID + `"}`, wire.OpCreateStore: `{"new":{"slug":"x"}}`,
	} {
		secret := r.key(access.Admin, nil)
		w := ask(op, body, secret, func() {
			c, err := r.registry.Caller(t.Context(), secret)
			r.must(err)
			_, err = r.registry.SetDisabled(t.Context(), c.Key.ID, true)
			r.must(err)
		})
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"kind":"unauthenticated"`) {
			t.Errorf("%s: %d %s", op, w.Code, w.Body)
		}
	}
	secret := r.key(access.Write, nil)
	token := r.token(secret, access.Write)
	w := ask(wire.OpCommit, r.proposal("/b.md", "x"), token, func() {
		c, err := r.registry.Caller(t.Context(), secret)
		r.must(err)
		r.must(r.registry.Revoke(t.Context(), c, token))
	})
	if w.Code != http.StatusUnauthorized {
		t.Errorf("a token: %d %s", w.Code, w.Body)
	}
	st, err := r.lib.Open(t.Context(), r.store.ID, nil)
	r.must(err)
	for v, err := range st.Heads(t.Context(), "/") {
		t.Errorf("%s is there, %v", v.Path, err)
	}
	if w := ask(wire.OpCommit, r.proposal("/c.md", "x"), secret, func() {}); w.Code != http.StatusOK {
		t.Errorf("a key that counts: %d %s", w.Code, w.Body)
	}
}

// TestRevokedBehindASlowBody: the same of the other faces, where the body takes a second or more.
func TestRevokedBehindASlowBody(t *testing.T) {
	r := newRig(t, Options{})
	for path, body := range map[string]string{
		"/v1/memory_stores/" + r.store.ID + "/memories": `{"path":"/a.md","content":"x"}`,
		"/v1/mneme/stores/" + r.store.ID + "/batch":     `{"changes":[{"action":"put","path":"/a.md","content":"x"}]}`,
		"/v1/mneme/tools/memory?store=" + r.store.ID:    `{"command":"create","path":"/memories/a.md","file_text":"x"}`,
		"/v1/mneme/sessions":                            `{"resources":[]}`,
	} {
		secret := r.key(access.Write, nil)
		q := httptest.NewRequest(http.MethodPost, path, halves(body, func() {
			c, err := r.registry.Caller(t.Context(), secret)
			r.must(err)
			_, err = r.registry.SetDisabled(t.Context(), c.Key.ID, true)
			r.must(err)
			r.now = r.now.Add(slowBody)
		}))
		q.ContentLength = int64(len(body))
		q.Header.Set("Authorization", "Bearer "+secret)
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, q)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	st, err := r.lib.Open(t.Context(), r.store.ID, nil)
	r.must(err)
	for v, err := range st.Heads(t.Context(), "/") {
		t.Errorf("%s is there, %v", v.Path, err)
	}
}

// TestRefusalsOfTheGateway has what is refused before the gateway be errors of it, by whose kind its
// client knows whether to try again.
func TestRefusalsOfTheGateway(t *testing.T) {
	r := newRig(t, Options{MaxPerCaller: 1, Hosts: []string{"example.com"}})
	secret := r.key(access.Read, nil)
	c, err := r.registry.Caller(t.Context(), secret)
	r.must(err)
	used, _, _, err := r.registry.NewToken(t.Context(), c, access.Session{Grants: map[string]access.Right{r.store.ID: access.Read}, MaxCalls: 1})
	r.must(err)
	path := wire.Prefix + wire.OpHello
	if w := r.ask("POST", path, "{}", used); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	is := func(what string, w *httptest.ResponseRecorder, status int, kind errkind.Kind) {
		t.Helper()
		if got := errkind.Of(wire.DecodeError(w.Body.Bytes())); w.Code != status || w.Header().Get("Content-Type") != wire.TypeError || got != kind {
			t.Errorf("%s: %d, %v, %s", what, w.Code, got, w.Body)
		}
	}
	is("a budget that is used up", r.ask("POST", path, "{}", used), http.StatusTooManyRequests, errkind.OverQuota)
	is("no credential", r.ask("POST", path, "{}", ""), http.StatusUnauthorized, errkind.Unauthenticated)
	for range freeFailures {
		r.ask("POST", path, "{}", "mneme_x_y")
	}
	is("a guess too many", r.ask("POST", path, "{}", "mneme_x_y"), http.StatusUnauthorized, errkind.Unauthenticated)
	is("another host", r.ask("POST", path, "{}", secret, func(q *http.Request) { q.Host = "other" }), http.StatusForbidden, errkind.Policy)
	r.handler = r.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		is("a request too many", r.ask("POST", path, "", secret), http.StatusServiceUnavailable, errkind.Unavailable)
		panic("a fault")
	}))
	is("a fault", r.ask("POST", path, "", secret), http.StatusInternalServerError, errkind.Unknown)
}

// throughHandler is a network on which there is only a server.
type throughHandler struct {
	handler http.Handler
	sent    atomic.Int64
}

func (h *throughHandler) RoundTrip(q *http.Request) (*http.Response, error) {
	h.sent.Add(1)
	served := httptest.NewRequestWithContext(q.Context(), q.Method, q.URL.Path, q.Body)
	served.Header, served.ContentLength = q.Header, q.ContentLength
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, served)
	return w.Result(), nil
}

func (*throughHandler) CloseIdleConnections() {}

// TestExpiredTokenIsNoGuess: a client whose token has expired, of which all stores ask on, does not have
// its address slowed. With another token it goes on at once.
func TestExpiredTokenIsNoGuess(t *testing.T) {
	r := newRig(t, Options{})
	key := r.key(access.Write, nil)
	network := &throughHandler{handler: r.handler}
	var token atomic.Value
	token.Store(r.token(key, access.Write))
	l, err := gateway.Open(t.Context(), "http://example.com", &gateway.Options{Transport: network, Token: func() (string, error) { return token.Load().(string), nil }})
	r.must(err)
	t.Cleanup(func() { _ = l.Close() })
	if c := l.Credential(); c.Session != "sess-1" || !c.MayWrite(r.store.ID, "sess-1") || c.MayWrite("another", "sess-1") {
		t.Errorf("the credential is %+v", c)
	}
	c, err := r.registry.Caller(t.Context(), key)
	r.must(err)
	r.must(r.registry.Revoke(t.Context(), c, token.Load().(string)))
	for range 5 * freeFailures {
		if _, err := l.Tip(t.Context(), r.store.ID); !errors.Is(err, gateway.ErrCredential) {
			t.Fatalf("a token that counts no more: %v", err)
		}
	}
	if n := network.sent.Load(); n >= freeFailures {
		t.Errorf("it was sent %d times", n)
	}
	if w := r.ask("POST", wire.Prefix+wire.OpHello, "{}", "mneme_x_y"); w.Code != http.StatusUnauthorized || w.Header().Get("Retry-After") != "" {
		t.Errorf("another of the address, with a wrong key: %d, told to wait %q", w.Code, w.Header().Get("Retry-After"))
	}
	next, _, _, err := r.registry.NewToken(t.Context(), c, access.Session{ID: "sess-2", Grants: map[string]access.Right{r.store.ID: access.Read}})
	r.must(err)
	token.Store(next)
	if _, err := l.Tip(t.Context(), r.store.ID); err != nil {
		t.Errorf("another token: %v", err)
	}
}

// TestWrongURL: a client of the gateway whose URL has a wrong path gets the right one.
func TestWrongURL(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.Admin, nil)
	_, err := gateway.Open(t.Context(), "http://"+r.serve()+"/typo", &gateway.Options{Token: func() (string, error) { return secret, nil }})
	if !errors.Is(err, gateway.ErrProtocol) || !strings.Contains(err.Error(), "status 404: there is no gateway at that URL; want that of the server") {
		t.Error(err)
	}
}
