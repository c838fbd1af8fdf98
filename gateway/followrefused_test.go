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

// patient is picky, and has followers wait for a commit that never comes.
type patient struct{ picky }

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.picky.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.HasSuffix(r.URL.Path, wire.OpFollow) {
		return answer, err
	}
	out, in := io.Pipe()
	answer.Header.Set("Content-Type", wire.TypeStream)
	answer.Body = out
	go func() {
		w := wire.NewStreamWriter(in, func() error { return nil })
		for range wire.PollTime / wire.AliveTime {
			select {
			case <-time.After(wire.AliveTime):
			case <-r.Context().Done():
				_ = in.CloseWithError(r.Context().Err())
				return
			}
			_ = w.Alive() // else the client has gone
		}
		_ = w.End(nil)
		_ = in.Close()
	}()
	return answer, nil
}

// TestFollowerHearsOfCredential: a follower learns within a few seconds that the current
// credential is not valid, or is missing, and continues with another one without an error.
func TestFollowerHearsOfCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &patient{picky: picky{accepts: "one"}}
		var mu sync.Mutex
		secret, none := "one", error(nil)
		put := func(text string, err error) {
			mu.Lock()
			defer mu.Unlock()
			secret, none = text, err
		}
		l, err := gateway.Open(t.Context(), "http://localhost", &gateway.Options{Transport: server, Token: func() (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return secret, none
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		waits := func() <-chan error {
			waited := make(chan error, 1)
			go func() { waited <- l.Wait(t.Context(), "x", 0) }() // until the Log is closed
			time.Sleep(100 * time.Millisecond)
			return waited
		}
		hears := func(what string, waited <-chan error) {
			t.Helper()
			select {
			case err := <-waited:
				if !errors.Is(err, gateway.ErrCredential) {
					t.Errorf("%s: %v", what, err)
				}
			case <-time.After(3 * time.Second):
				t.Errorf("%s: the follower has not heard of it", what)
			}
		}
		for what, now := range map[string]func(){
			"a credential that does not count": func() { put("nobody", nil) },
			"no credential":                    func() { put("", errors.New("there is no file")) },
		} {
			waited := waits()
			now()
			hears(what, waited)
			put("one", nil)
			time.Sleep(3 * time.Second)
		}
		waited := waits()
		put("", errors.New("the file is empty"))
		time.Sleep(time.Second) // which is one look
		put("one", nil)
		select {
		case err := <-waited:
			t.Errorf("a file that is being written: %v", err)
		case <-time.After(3 * time.Second):
		}
		server.set("two", false)
		put("two", nil)
		select {
		case err := <-waited:
			t.Errorf("another credential: %v", err)
		case <-time.After(2 * wire.PollTime):
		}
		put("nobody", nil)
		hears("later", waited)
	})
}
