package gate

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"mneme/gateway"
	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestHello: a client is told what its credential is, and what it allows in each store.
func TestHello(t *testing.T) {
	lib := memory.NewLibrary(memlog.New(nil), nil)
	key := versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_1"}
	for name, one := range map[string]struct {
		caller *access.Caller
		writes string // of the stores a and b in the session mine
	}{
		"admin":            {&access.Caller{Everywhere: access.Admin}, "ab"},
		"reader":           {&access.Caller{Everywhere: access.Read}, ""},
		"writer of one":    {&access.Caller{Everywhere: access.Read, Grants: map[string]access.Right{"a": access.Write}}, "a"},
		"admin of one":     {&access.Caller{Grants: map[string]access.Right{"b": access.Admin}}, "b"},
		"reader of both":   {&access.Caller{Grants: map[string]access.Right{"a": access.Read, "b": access.Read}}, ""},
		"token":            {&access.Caller{Session: "mine", Grants: map[string]access.Right{"a": access.Write, "b": access.Read}}, "a"},
		"token of another": {&access.Caller{Session: "other", Grants: map[string]access.Right{"a": access.Write}}, ""},
	} {
		one.caller.Library, one.caller.Actor = lib, key
		l := newServer(t, viewOf(func(*http.Request) (*access.Caller, error) { return one.caller, nil })).dial(t, nil)
		c := l.Credential()
		writes := ""
		for _, store := range []string{"a", "b"} {
			if c.MayWrite(store, "mine") {
				writes += store
			}
		}
		if c.Key != "apikey_1" || c.Session != one.caller.Session || writes != one.writes {
			t.Errorf("%s: %+v, which writes %q, want %q", name, c, writes, one.writes)
		}
	}
}

// TestAnotherCredential: a client learns the rights of another credential without a request
// of its own.
func TestAnotherCredential(t *testing.T) {
	r := newRig(t, nil)
	reader := &access.Caller{Library: r.lib, Actor: r.caller.Actor, Session: "sess_1", Grants: map[string]access.Right{r.store.ID: access.Read}}
	s := newServer(t, viewOf(func(q *http.Request) (*access.Caller, error) {
		if q.Header.Get("Authorization") == "Bearer reader" {
			return reader, nil
		}
		return r.caller, nil
	}))
	var token atomic.Value
	token.Store("writer")
	l := s.dial(t, &gateway.Options{Token: func() (string, error) { return token.Load().(string), nil }})
	is := func(session string, mayWrite bool) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			c := l.Credential()
			if c.Session == session && c.MayWrite(r.store.ID, "") == mayWrite {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("the credential is %+v", c)
			}
		}
	}
	is("", true)
	token.Store("reader")
	is("sess_1", false)
	token.Store("writer")
	is("", true)
}
