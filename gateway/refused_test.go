package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mneme/gateway"
	"mneme/gateway/wire"
)

// picky is a server that accepts one credential.
type picky struct {
	mu      sync.Mutex // guards the fields below
	accepts string
	refused int // requests with another one
	broken  bool
}

func (p *picky) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return nil, errors.New("the network is broken")
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	body := `{"tip":{"seq":1}}`
	switch {
	case r.Header.Get("Authorization") != "Bearer "+p.accepts:
		p.refused++
		answer.StatusCode, body = http.StatusUnauthorized, `{"kind":"unauthenticated","message":"no"}`
		answer.Header.Set("Content-Type", wire.TypeError)
	case strings.HasSuffix(r.URL.Path, wire.OpHello):
		body = `{"hello":{"protocol":1}}`
	}
	answer.Body = io.NopCloser(strings.NewReader(body))
	return answer, nil
}

func (p *picky) CloseIdleConnections() {}

func (p *picky) set(accepts string, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepts, p.broken = accepts, broken
}

func (p *picky) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// TestRefusedCredential: a credential that the server does not accept is sent less and less often,
// however many ask, and another one at once.
func TestRefusedCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &picky{accepts: "one"}
		var mu sync.Mutex
		secret := "one"
		l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: server, Token: func() (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return secret, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		put := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			secret = text
		}
		ask := func() error {
			_, err := l.Tip(t.Context(), "x")
			return err
		}
		refused := func(what string) {
			t.Helper()
			if err := ask(); !errors.Is(err, gateway.ErrCredential) {
				t.Errorf("%s: %v", what, err)
			}
		}
		server.set("two", false)
		refused("a credential that has ended")
		for range 300 {
			var stores sync.WaitGroup
			for range 8 {
				stores.Go(func() { refused("the same credential again") })
			}
			stores.Wait()
			time.Sleep(time.Second)
		}
		if n := server.count(); n < 10 || n > 16 {
			t.Errorf("in 5 minutes it was sent %d times", n)
		}
		put("two")
		if err := ask(); err != nil {
			t.Errorf("another credential: %v", err)
		}

		server.set("three", false)
		refused("it has ended, too")
		server.set("two", false)
		refused("a moment after it was refused")
		time.Sleep(2 * time.Second)
		if err := ask(); err != nil {
			t.Errorf("a credential that counts again: %v", err)
		}

		server.set("three", false)
		refused("it has ended again")
		time.Sleep(2 * time.Second)
		server.set("two", true)
		if err := ask(); !errors.Is(err, gateway.ErrUnavailable) {
			t.Errorf("no server, of which nobody has heard that the credential does not count: %v", err)
		}
		server.set("two", false)
		if err := ask(); err != nil {
			t.Errorf("a credential that counts, where a request with it was lost: %v", err)
		}
	})
}
