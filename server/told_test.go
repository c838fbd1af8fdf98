package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/gate"
	"mneme/server/reply"
)

// TestOwnErrorsAreTold: a client gets the reason why the server itself refuses a request at
// present, without details of its backend.
func TestOwnErrorsAreTold(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.Read, nil)
	inner := fmt.Errorf("arn:aws:dynamodb: %w", errkind.New(errkind.Unavailable, "the table of eu-1"))
	for name, c := range map[string]struct {
		err    error
		status int
		text   string
		retry  string // x-should-retry
	}{
		"too many":            {errOverloaded, 503, "too many requests are under way; try again", ""},
		"an end":              {reply.ErrEnding, 503, "the server ends; try again", ""},
		"credentials":         {fmt.Errorf("%w: %w", errCredentials, inner), 503, "credentials cannot be looked up now; try again", ""},
		"a time that is over": {fmt.Errorf("%w: %w", reply.ErrLate, inner), 503, "the request was not answered in time", ""},
		"a full disk":         {fmt.Errorf("arn:aws:disk: %w", errkind.New(errkind.NoSpace, "of eu-1")), 507, "the server has no room left", "false"},
		"a backend":           {inner, 503, "the log of the server says more", ""},
		"damage":              {fmt.Errorf("%w: %w", errCredentials, errkind.New(errkind.Corrupt, "arn:aws: eu-1")), 500, "the log of the server says more", "false"},
	} {
		r.handler = r.wrap(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			reply.Error(w, q, slog.New(slog.DiscardHandler), c.err)
		}))
		w := r.ask("GET", "/", "", secret)
		r.refusal(w.Body.Bytes(), w.Header())
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) || w.Header().Get("X-Should-Retry") != c.retry {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
		r.handler = r.wrap(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			gate.Refuse(w, q, slog.New(slog.DiscardHandler), c.err)
		}))
		inWire := r.ask("POST", wire.Prefix+wire.OpHead, "", secret)
		told := strings.HasPrefix(c.text, "the log of") || strings.Contains(wire.DecodeError(inWire.Body.Bytes()).Error(), c.text)
		if inWire.Code != c.status || !told {
			t.Errorf("%s, of the gateway: %d %s", name, inWire.Code, inWire.Body)
		}
		if all := w.Body.String() + inWire.Body.String(); strings.Contains(all, "eu-1") || strings.Contains(all, "arn:") {
			t.Errorf("%s tells what is behind the server: %s", name, all)
		}
	}
}

// TestEndIsTold to the clients that wait for news when the server ends.
func TestEndIsTold(t *testing.T) {
	r := newRig(t, Options{})
	secret := r.key(access.Read, nil)
	done := make(chan string)
	go func() {
		w := r.ask("GET", "/v1/mneme/stores/"+r.store.ID+"/events?wait=50", "", secret)
		done <- fmt.Sprint(w.Code, " ", w.Body)
	}()
	for r.lounge.n.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.endNews()
	if got := <-done; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "the server ends; try again") {
		t.Error(got)
	}
}

// TestFailureInLog: the line of a request that failed names its operation as the line of each request does.
func TestFailureInLog(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	secret := r.key(access.Read, nil)
	mux := http.NewServeMux()
	fail := func(w http.ResponseWriter, q *http.Request) { reply.Error(w, q, r.opts.Logger, errors.New("a fault")) }
	mux.HandleFunc("POST /x/{y}", fail)
	mux.HandleFunc("/mcp", fail)
	r.handler = r.wrap(mux)
	for path, op := range map[string]string{"/x/1": "POST /x/{y}", "/mcp": "POST /mcp"} {
		log.Reset()
		r.ask("POST", path, "", secret)
		if text := log.String(); !strings.Contains(text, `"msg":"a request failed"`) || !strings.Contains(text, `"op":"`+op+`"`) || strings.Contains(text, "POST POST") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
