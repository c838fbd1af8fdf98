package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// through is a network on which there is only a handler.
type through struct {
	handler http.Handler
	loses   func() // the next answer is lost, and this is called then; nil: it is not
}

func (n *through) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, r)
	if loses := n.loses; loses != nil {
		n.loses = nil
		loses()
		return nil, errLost
	}
	return w.Result(), nil
}

func (n *through) CloseIdleConnections() {}

// refusing is a server that refuses all requests while it has an error to do so with.
type refusing struct {
	log versionlog.Log
	err atomic.Pointer[error] // nil: it does not
}

func (s *refusing) refuse(err error) { s.err.Store(&err) }

func (s *refusing) dial(t *testing.T, opts *gateway.Options) (*through, *gateway.Log) {
	t.Helper()
	open := rawView(s.log, newBlobs())
	network := &through{handler: newHandler(func(r *http.Request) (*view, error) {
		if err := s.err.Load(); err != nil {
			return nil, *err
		}
		return open(r)
	}, nil)}
	opts.Transport = network
	l, err := gateway.Open(t.Context(), "http://localhost", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return network, l
}

// TestUntried: a commit that the server refuses before it has looked at it was certainly not made, if it
// is the first attempt. After a lost reply, and under a key that was used before, that is not known.
func TestUntried(t *testing.T) {
	for what, refusal := range map[string]error{
		"credential":        access.ErrUnauthenticated,
		"right":             access.ErrDenied,
		"budget":            session.ErrOverBudget,
		"too many requests": reply.Unavailable("too many requests are under way"),
		"bad request":       versionlog.ErrInvalid,
		"too large":         versionlog.ErrTooLarge,
		"no store":          versionlog.ErrNotFound,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &refusing{log: memlog.New(nil)}
				network, l := s.dial(t, &gateway.Options{})
				id := addStore(t, l, "notes")
				commit := func(p *versionlog.Proposal) error {
					_, err := l.Commit(t.Context(), id, p)
					if err == nil || errors.Is(err, gateway.ErrProtocol) {
						t.Errorf("the commit: %v", err)
					}
					return err
				}
				small := func(path string) *versionlog.Proposal {
					p := put(path, "1")
					p.Changes[0].Content = nil // which is not put before
					return p
				}
				network.loses = func() { s.refuse(refusal) }
				if err := commit(small("/lost")); memory.IsFinal(err) {
					t.Errorf("after a lost reply it was certainly not made: %v", err)
				}
				if err := commit(small("/a")); !memory.IsFinal(err) {
					t.Errorf("it may have been made: %v (%v)", err, errkind.Of(err))
				}
				if err := commit(put("/a", "1")); !memory.IsFinal(err) {
					t.Errorf("one whose content is put before may have been made: %v (%v)", err, errkind.Of(err))
				}
				used := small("/a")
				used.Fresh = false
				if err := commit(used); memory.IsFinal(err) && !errors.Is(err, versionlog.ErrReadOnly) {
					t.Errorf("under a key that was used before it was certainly not made: %v", err)
				}
			})
		})
	}
}

// TestUntriedIsNotSent: what is not sent, since the credential was refused a moment before or there is none,
// was certainly not made.
func TestUntriedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusing{log: memlog.New(nil)}
		var none error
		_, l := s.dial(t, &gateway.Options{Token: func() (string, error) { return "one", none }})
		id := addStore(t, l, "notes")
		s.refuse(access.ErrUnauthenticated)
		if _, err := l.Tip(t.Context(), id); !errors.Is(err, gateway.ErrCredential) {
			t.Fatal(err)
		}
		s.err.Store(nil)
		if _, err := l.Commit(t.Context(), id, put("/a", "1")); !errors.Is(err, gateway.ErrCredential) || !memory.IsFinal(err) {
			t.Errorf("a moment after it was refused: %v", err)
		}
		none = errors.New("there is no file")
		if _, err := l.Commit(t.Context(), id, put("/a", "1")); !errors.Is(err, gateway.ErrCredential) || !memory.IsFinal(err) {
			t.Errorf("without a credential: %v", err)
		}
	})
}

// slow is a log whose commits take until the request ends.
type slow struct{ versionlog.Log }

func (slow) Commit(ctx context.Context, _ string, _ *versionlog.Proposal) (*versionlog.Commit, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCredentialThatEndsInACommit: a commit that ends since the credential counts no more may have been
// made.
func TestCredentialThatEndsInACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(nil)
		id := addStore(t, log, "notes")
		s := &refusing{log: slow{log}}
		_, l := s.dial(t, &gateway.Options{})
		time.AfterFunc(time.Second, func() { s.refuse(access.ErrUnauthenticated) })
		if _, err := l.Commit(t.Context(), id, put("/a", "1")); !errors.Is(err, gateway.ErrCredential) || memory.IsFinal(err) {
			t.Errorf("%v (%v)", err, errkind.Of(err))
		}
	})
}

// TestAgentWithoutCredential: an agent whose credential does not count is told that nothing was changed.
func TestAgentWithoutCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusing{log: memlog.New(nil)}
		network, l := s.dial(t, &gateway.Options{})
		id := addStore(t, l, "notes")
		lib := memory.NewLibrary(l, func(id string) (cas.Store, error) { return l.Blobs(id), nil })
		st, err := lib.Open(t.Context(), id, memory.SessionAuthor("s1"))
		if err != nil {
			t.Fatal(err)
		}
		own := session.New(st, &session.Options{ID: "s1", Name: tools.PathName("notes", false)})
		t.Cleanup(own.Close)
		m := tools.New([]tools.Place{{Store: st, Session: own}}, nil)
		create := func(name string) tools.Result {
			return m.Call(t.Context(), []byte(`{"command": "create", "path": "/memories/`+name+`", "file_text": "x"}`))
		}
		network.handler = dropsAfter{network.handler, s, "/commit"}
		if got := create("a.md"); got.Error == nil || got.Error.Unsure || !strings.Contains(got.Text, "nothing was changed") {
			t.Errorf("%q, %+v", got.Text, got.Error)
		}
	})
}

// dropsAfter has a credential count no more from the first request of an operation on.
type dropsAfter struct {
	http.Handler
	s  *refusing
	op string
}

func (d dropsAfter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, d.op) {
		d.s.refuse(access.ErrUnauthenticated)
	}
	d.Handler.ServeHTTP(w, r)
}
