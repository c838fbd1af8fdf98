package gate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/versionlog"
	"mneme/versionlog/logtest"
	"mneme/versionlog/memlog"
)

var errLost = errors.New("the network is broken")

// lossy is a transport that loses requests, replies and the rest of answers, in turn.
type lossy struct {
	*http.Transport
	requests atomic.Int64
	lost     atomic.Int64
}

func newLossy() *lossy { return &lossy{Transport: &http.Transport{MaxIdleConnsPerHost: 32}} }

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	n := l.requests.Add(1)
	switch {
	case n == 1: // which opens the log
	case n%11 == 0:
		l.lost.Add(1)
		return nil, errLost // the request
	case n%13 == 0: // the reply
		l.lost.Add(1)
		answer, err := l.Transport.RoundTrip(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			err = errors.Join(errLost, answer.Body.Close())
		}
		return nil, err
	case n%7 == 0: // in its middle
		l.lost.Add(1)
		answer, err := l.Transport.RoundTrip(r)
		if err == nil {
			answer.Body = &cut{answer.Body, n % 97}
		}
		return answer, err
	}
	return l.Transport.RoundTrip(r)
}

// cut is a body that breaks off.
type cut struct {
	io.ReadCloser
	left int64
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errLost
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// TestLogWithFaults is TestLog over a network that loses requests, replies and the ends of answers.
func TestLogWithFaults(t *testing.T) {
	logtest.Run(t, logtest.Config{
		Open: func(t testing.TB, now func() time.Time) versionlog.Log {
			return withoutPurge{newServer(t, rawView(memlog.New(&memlog.Options{Now: now}), newBlobs())).dial(t, &gateway.Options{Transport: newLossy()})}
		},
		Share: func(t testing.TB, l versionlog.Log) versionlog.Log {
			return withoutPurge{l.(withoutPurge).server.dial(t, &gateway.Options{Transport: newLossy()})}
		},
		Remote: true, Runs: 1,
	})
}

// withoutPurge has no redactions, whose tests make many requests of kinds that others make too.
type withoutPurge struct{ *dialled }

func (l withoutPurge) Capabilities() versionlog.Capabilities {
	can := l.dialled.Capabilities()
	can.Purge = nil
	return can
}

// put is a proposal of one memory.
func put(path, content string) *versionlog.Proposal {
	return &versionlog.Proposal{
		Key: versionlog.NewKey(), Fresh: true, Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"},
		Changes: []versionlog.Change{{
			Action: versionlog.Put, Path: path, Digest: cas.Sum([]byte(content)), Size: int64(len(content)), Content: []byte(content),
			Expect: versionlog.ExpectAny(),
		}},
	}
}

func addStore(t *testing.T, l versionlog.Log, slug string) string {
	t.Helper()
	s := versionlog.Store{
		ID: versionlog.NewStoreID(), Slug: slug, Name: slug, CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
		Limits: versionlog.Limits{MaxMemoryBytes: 1000, Content: versionlog.ContentText},
	}
	if err := l.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// TestRestart: the server ends while one client follows and another one writes, and comes
// back at its address. Both continue without help, and nothing is made twice.
func TestRestart(t *testing.T) {
	log := memlog.New(nil)
	open, polled := polling(rawView(log, newBlobs()))
	s := newServer(t, open)
	l := s.dial(t, nil)
	id := addStore(t, l, "notes")
	next := make(chan error, 1)
	go func() {
		commits, err := l.Capabilities().Next(t.Context(), id, 0)
		if err == nil && (len(commits) == 0 || commits[0].Seq != 1) {
			err = errors.New("not the first commit")
		}
		next <- err
	}()
	<-polled
	s.stop()
	made := make(chan error, 1)
	go func() {
		p := put("/a", "1")
		p.Changes[0].Content = nil
		_, err := l.Commit(t.Context(), id, p)
		made <- err
	}()
	s.listen(t, s.address)
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	if tip, err := l.Tip(t.Context(), id); err != nil || tip.Seq != 1 {
		t.Errorf("the tip is %+v, %v", tip, err)
	}
}

// TestGone: without a server a call fails within its limit, and a context ends it before.
func TestGone(t *testing.T) {
	s := newServer(t, rawView(memlog.New(nil), newBlobs()))
	l := s.dial(t, &gateway.Options{Limit: time.Millisecond})
	patient := s.dial(t, nil)
	id := addStore(t, patient, "notes")
	s.stop()
	p := put("/a", "1")
	p.Changes[0].Content = nil
	if _, err := l.Commit(t.Context(), id, p); !errors.Is(err, gateway.ErrUnavailable) || errkind.Of(err) != errkind.Unavailable {
		t.Errorf("a commit without a server: %v", err)
	}
	if err := l.Wait(t.Context(), id, 0); !errors.Is(err, gateway.ErrUnavailable) {
		t.Errorf("a wait without a server: %v", err)
	}
	if _, err := l.Blobs(id).Get(t.Context(), cas.Sum(nil)); !errors.Is(err, gateway.ErrUnavailable) {
		t.Errorf("a blob without a server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := patient.Tip(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call whose context ends: %v", err)
	}
}

// TestSilence: a server that takes requests and does not answer is one that is not there.
func TestSilence(t *testing.T) {
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	s := newServer(t, rawView(memlog.New(nil), newBlobs()))
	l := s.dial(t, &gateway.Options{Attempt: 5 * time.Second, Limit: time.Millisecond})
	front := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent })
	s.front.Store(&front)
	if _, err := l.Tip(t.Context(), "x"); !errors.Is(err, gateway.ErrUnavailable) {
		t.Errorf("a call that is not answered: %v", err)
	}
}

// polling tells once that a follower has come.
func polling(open func(*http.Request) (*view, error)) (func(*http.Request) (*view, error), <-chan struct{}) {
	polled := make(chan struct{})
	var once sync.Once
	return func(r *http.Request) (*view, error) {
		v, err := open(r)
		if err == nil && strings.HasSuffix(r.URL.Path, wire.OpFollow) {
			once.Do(func() { close(polled) })
		}
		return v, err
	}, polled
}

// TestCredential: a credential that ends in the middle is told by the kind of the error, for a
// poll that is under way as well; with another one the same client goes on.
func TestCredential(t *testing.T) {
	log := memlog.New(nil)
	open, polled := polling(rawView(log, newBlobs()))
	var valid atomic.Value
	valid.Store("Bearer one")
	s := &server{Handler: newHandler(func(r *http.Request) (*view, error) {
		if r.Header.Get("Authorization") != valid.Load() {
			return nil, access.ErrUnauthenticated
		}
		return open(r)
	}, &Options{Recheck: 5 * time.Millisecond})}
	s.listen(t, "127.0.0.1:0")
	t.Cleanup(s.stop)
	var token atomic.Value
	token.Store("one")
	l := s.dial(t, &gateway.Options{Token: func() (string, error) { return token.Load().(string), nil }})
	id := addStore(t, l, "notes")
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), id, 0) }()
	<-polled
	valid.Store("Bearer two")
	for what, err := range map[string]error{"a poll": <-waited, "a call": func() error { _, err := l.Tip(t.Context(), id); return err }()} {
		if !errors.Is(err, gateway.ErrCredential) || errkind.Of(err) != errkind.Unauthenticated || errkind.Of(err).Final() {
			t.Errorf("%s with a credential that has ended: %v", what, err)
		}
	}
	token.Store("two")
	if _, err := l.Tip(t.Context(), id); err != nil {
		t.Errorf("with another credential: %v", err)
	}
}

// TestLinger: what ends a follower that lingers is told to it, and one that is too many comes again.
func TestLinger(t *testing.T) {
	log := memlog.New(nil)
	lingers := make(chan context.CancelCauseFunc, 1)
	var full atomic.Bool
	s := &server{Handler: newHandler(rawView(log, newBlobs()), &Options{Linger: func(_ http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(r.Context())
		if full.Swap(false) {
			cancel(errNoRoom)
		} else {
			lingers <- cancel
		}
		return ctx, func() { cancel(nil) }
	}})}
	s.listen(t, "127.0.0.1:0")
	t.Cleanup(s.stop)
	var token atomic.Value
	token.Store("one")
	l := s.dial(t, &gateway.Options{Token: func() (string, error) { return token.Load().(string), nil }})
	id := addStore(t, l, "notes")
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), id, 0) }()
	(<-lingers)(access.ErrUnauthenticated)
	if err := <-waited; !errors.Is(err, gateway.ErrCredential) {
		t.Errorf("a credential that has ended: %v", err)
	}
	token.Store("two")
	full.Store(true)
	go func() { waited <- l.Wait(t.Context(), id, 0) }()
	(<-lingers)(reply.ErrEnding) // it has come again after it was refused
	<-lingers                    // it has come again
	p := put("/a", "1")
	p.Changes[0].Content = nil
	if _, err := l.Commit(t.Context(), id, p); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestRefusedBefore: an answer of a proxy before the handler is understood by its status.
func TestRefusedBefore(t *testing.T) {
	s := newServer(t, rawView(memlog.New(nil), newBlobs()))
	var token atomic.Value
	token.Store("one")
	l := s.dial(t, &gateway.Options{Token: func() (string, error) { return token.Load().(string), nil }})
	var next atomic.Value // credential, while one is refused
	next.Store("one")
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer two" {
			token.Store(next.Load())
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})
	s.front.Store(&front)
	if _, err := l.Tip(t.Context(), "x"); !errors.Is(err, gateway.ErrCredential) {
		t.Errorf("a credential that was not replaced: %v", err)
	}
	next.Store("two")
	token.Store("another")
	if _, err := l.Store(t.Context(), "x"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("a credential that was replaced: %v", err)
	}
}

// TestEndPolls: followers are sent away at once when the server is about to end, without an
// error.
func TestEndPolls(t *testing.T) {
	log := memlog.New(nil)
	open, polled := polling(rawView(log, newBlobs()))
	s := newServer(t, open)
	l := s.dial(t, nil)
	id := addStore(t, l, "notes")
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), id, 0) }()
	<-polled
	s.EndPolls()
	if err := s.http.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.Handler = newHandler(rawView(log, newBlobs()), nil)
	s.listen(t, s.address)
	p := put("/a", "1")
	p.Changes[0].Content = nil
	if _, err := log.Commit(t.Context(), id, p); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the follower: %v", err)
	}
}
