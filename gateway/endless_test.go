package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/gateway"
	"mneme/gateway/wire"
	"mneme/versionlog"
)

// faked is a server in this process, for the clock of a bubble: it answers with the beginning of
// a body, and then a piece of it each time.
type faked struct {
	first, piece, kind string
	every              time.Duration // 0: the body ends with first
	silent             bool
	takes              int           // bytes of a request at once, as the kernel does for a process that is stopped
	slowly             time.Duration // for so many bytes, again and again; 0: never more
	requests           int
}

func (*faked) CloseIdleConnections() {}

func (f *faked) RoundTrip(r *http.Request) (*http.Response, error) {
	first, kind := f.first, f.kind
	switch op := r.URL.Path[len(wire.Prefix):]; {
	case op == wire.OpHello:
		first, kind = `{"hello":{"protocol":1,"max_content":1000000}}`, wire.TypeJSON
	case op == wire.OpTip && f.kind == wire.TypeStream:
		first, kind = `{"tip":{"seq":10}}`, wire.TypeJSON
	default:
		f.requests++
		if err := f.take(r); err != nil {
			return nil, err
		}
		if f.silent {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	}
	body := &dripping{f: f, ctx: r.Context(), rest: first}
	if kind == wire.TypeJSON && f.kind == wire.TypeStream || strings.HasSuffix(r.URL.Path, wire.OpHello) {
		body.f = &faked{}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: body}, nil
}

// take takes bytes of a request.
func (f *faked) take(r *http.Request) error {
	for n := int64(f.takes); n > 0; {
		if n, _ = io.CopyN(io.Discard, r.Body, n); f.slowly == 0 {
			return nil
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(f.slowly):
		}
	}
	return nil
}

type dripping struct {
	f    *faked
	ctx  context.Context
	rest string
}

func (d *dripping) Close() error { return nil }

func (d *dripping) Read(p []byte) (int, error) {
	if d.rest == "" {
		if d.f.every == 0 {
			return 0, io.EOF
		}
		select {
		case <-d.ctx.Done():
			return 0, d.ctx.Err()
		case <-time.After(d.f.every):
			d.rest = d.f.piece
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// TestEnds: each call ends within 30 s, whatever a server does and how slowly.
func TestEnds(t *testing.T) {
	const alive = "k\x00\x00\x00\x00"
	large := make([]byte, 16<<20)
	tip := func(ctx context.Context, l *gateway.Log) error { _, err := l.Tip(ctx, "x"); return err }
	blob := func(ctx context.Context, l *gateway.Log) error {
		_, err := l.Blobs("x").Get(ctx, cas.Sum(nil))
		return err
	}
	heads := func(ctx context.Context, l *gateway.Log) error { return last(l.Heads(ctx, "x", "/", "")) }
	for name, test := range map[string]struct {
		server   faked
		do       func(context.Context, *gateway.Log) error
		requests int // at most
	}{
		"a drip":               {faked{first: "{", piece: " ", every: time.Second, kind: wire.TypeJSON}, tip, 2},
		"a drip in a blob":     {faked{first: "d\x00\x01\x00\x00b", piece: "x", every: time.Second, kind: wire.TypeStream}, blob, 2},
		"signs of life":        {faked{piece: alive, every: time.Second, kind: wire.TypeStream}, blob, 1},
		"signs of life, heads": {faked{piece: alive, every: time.Second, kind: wire.TypeStream}, heads, 1},
		"cut":                  {faked{first: "d\x00\x00\x00\x02b", kind: wire.TypeStream}, blob, 50},
		"an item too large":    {faked{first: "d\x00\x00\x00\x06b\xff\xff\xff\xff\x0f", kind: wire.TypeStream}, blob, 1},
		"later for ever":       {faked{first: "d\x00\x00\x00\x01le\x00\x00\x00\x00", kind: wire.TypeStream}, blob, 1},
		"silence":              {faked{silent: true}, tip, 3},
		"silence, a blob":      {faked{silent: true}, blob, 3},
		"silence, heads":       {faked{silent: true}, heads, 3},
		"silence, and contents": {faked{silent: true, takes: 4 << 20}, func(ctx context.Context, l *gateway.Log) error {
			p := proposal("/a")
			p.Changes[0].Digest, p.Changes[0].Size, p.Changes[0].Content = cas.Sum(large), int64(len(large)), large
			_, err := l.Commit(ctx, versionlog.NewStoreID(), p)
			return err
		}, 3},
		"silence, tried by two layers": {faked{silent: true}, func(ctx context.Context, l *gateway.Log) error {
			d := cas.Sum(nil)
			_ = l.Blobs("x").GetBatch(ctx, []cas.Digest{d, cas.Sum([]byte("1"))})
			_ = blob(ctx, l)
			return blob(ctx, l)
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := test.server
				l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: &server})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err = test.do(ctx, l)
				if took := time.Since(began); took > 30*time.Second || !errors.Is(err, gateway.ErrUnavailable) && !errors.Is(err, gateway.ErrProtocol) {
					t.Errorf("after %v: %v", took, err)
				}
				if server.requests > test.requests {
					t.Errorf("%d requests, at most %d", server.requests, test.requests)
				}
			})
		})
	}
}

// TestFollowsCalmly: a server that lets no follower wait is not asked again at once, and one that
// says for ever that it goes on is left.
func TestFollowsCalmly(t *testing.T) {
	for name, server := range map[string]faked{
		"commits that do not come": {first: "e\x00\x00\x00\x00", kind: wire.TypeStream},
		"signs of life":            {piece: "k\x00\x00\x00\x00", every: time.Second, kind: wire.TypeStream},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: &server})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if tip, err := l.Tip(t.Context(), "x"); err != nil || tip.Seq != 10 {
					t.Fatal(tip, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				want := error(context.DeadlineExceeded)
				if server.every != 0 {
					want = gateway.ErrProtocol
				}
				if _, err := l.Capabilities().Next(ctx, "x", 5); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
				if server.requests > 61 {
					t.Errorf("%d requests in a minute", server.requests)
				}
			})
		})
	}
}

// TestTurns: calls that were made one after the other, since each waited for the one before, are not each
// given the whole limit.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: &faked{silent: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		began := time.Now()
		const turns = 8
		for range turns {
			if _, err := l.Tip(t.Context(), "x"); err == nil {
				t.Fatal("a server that says nothing has answered")
			}
		}
		if took := time.Since(began); took > 30*time.Second+turns*3*time.Second {
			t.Errorf("%d calls took %v", turns, took)
		}
	})
}

// TestSlowLink: the time in which a large body is sent is not that of the server.
func TestSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := faked{first: "{}", kind: wire.TypeJSON, takes: 300 << 10, slowly: time.Second}
		l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: &server})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		began := time.Now()
		if _, err := l.Blobs("x").Put(t.Context(), make([]byte, 16<<20)); err != nil || server.requests != 1 {
			t.Errorf("%d requests, after %v: %v", server.requests, time.Since(began), err)
		}
	})
}
