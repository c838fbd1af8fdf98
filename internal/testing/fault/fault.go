// Package fault is an http.RoundTripper for tests that counts the requests of
// the AWS clients by what they are for, and makes some of them fail as networks
// and services do: before they are sent, after they took effect, with an error
// of the service, late, or with a damaged body.
package fault

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Transport passes requests on to another http.RoundTripper. It is safe for
// concurrent use.
type Transport struct {
	next   http.RoundTripper
	naming func(*http.Request, []byte) string

	mu     sync.Mutex     // guards the fields below
	calls  map[string]int // by site
	faults []*Fault
	delay  time.Duration
}

// Options are the optional settings of a Transport. Nil and zero fields stand
// for the defaults.
type Options struct {
	// Next carries what gets through. Default: a transport of its own with
	// enough connections for hundreds of requests at once.
	Next http.RoundTripper
	// Site names what a request with that body is for. Default: Site.
	Site func(req *http.Request, body []byte) string
}

// New returns a transport without faults.
func New(opts *Options) *Transport {
	if opts == nil {
		opts = &Options{}
	}
	t := &Transport{next: opts.Next, naming: opts.Site, calls: make(map[string]int)}
	if t.next == nil {
		t.next = &http.Transport{MaxIdleConnsPerHost: 512}
	}
	if t.naming == nil {
		t.naming = func(req *http.Request, _ []byte) string { return Site(req) }
	}
	return t
}

// Action does something else with a request than sending it, or something
// besides. body is the request's; send sends it and may be called any number of
// times.
type Action func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error)

// Fault is what happens to some requests.
type Fault struct {
	// Site is the name of the requests that are meant, with * and ? as in
	// path.Match: "s3 PUT blobs", "dynamodb *". "" is every request.
	Site string
	// From is the first of them that is hit, counted from when the fault is
	// armed. 0 and 1 are the next one.
	From int
	// Times is how many are hit from there on; 0 is all.
	Times int
	// Action is what happens. Required.
	Action Action

	seen, hits int // guarded by Transport.mu
}

// Arm makes a fault happen from now on. Where several faults meet one request,
// the one that was armed first acts.
func (t *Transport) Arm(f Fault) *Armed {
	t.mu.Lock()
	defer t.mu.Unlock()
	armed := &Armed{transport: t, fault: &f}
	t.faults = append(t.faults, &f)
	return armed
}

// Armed is a fault in a transport.
type Armed struct {
	transport *Transport
	fault     *Fault
}

// Hits returns how many requests the fault has acted on.
func (a *Armed) Hits() int {
	a.transport.mu.Lock()
	defer a.transport.mu.Unlock()
	return a.fault.hits
}

// Disarm makes the fault act no more.
func (a *Armed) Disarm() {
	a.transport.mu.Lock()
	defer a.transport.mu.Unlock()
	a.transport.faults = slices.DeleteFunc(a.transport.faults, func(f *Fault) bool { return f == a.fault })
}

// Disarm removes all faults.
func (t *Transport) Disarm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = nil
}

// SetDelay makes every request wait so long before it is sent, or until its
// context ends.
func (t *Transport) SetDelay(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay = d
}

// Calls returns how many requests came by site, those that were made to fail
// included.
func (t *Transport) Calls() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.calls)
}

// Total returns how many requests came.
func (t *Transport) Total() int {
	n := 0
	for _, calls := range t.Calls() {
		n += calls
	}
	return n
}

// Reset sets the counts of calls to zero.
func (t *Transport) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.calls)
}

// CloseIdleConnections does so in the transport below.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	action, delay := t.take(t.naming(req, body))
	send := func() (*http.Response, error) {
		again := req.Clone(req.Context())
		if req.Body != nil && req.Body != http.NoBody {
			again.Body = io.NopCloser(bytes.NewReader(body))
		}
		return t.next.RoundTrip(again)
	}
	if err := sleep(req, delay); err != nil {
		return nil, err
	}
	if action == nil {
		return send()
	}
	return action(req, body, send)
}

// take counts a request and returns what happens to it.
func (t *Transport) take(site string) (Action, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[site]++
	var action Action
	for _, f := range t.faults {
		if f.Site != "" {
			if ok, err := path.Match(f.Site, site); err != nil || !ok {
				continue
			}
		}
		f.seen++
		first := max(f.From, 1)
		if action == nil && f.seen >= first && (f.Times == 0 || f.seen < first+f.Times) {
			f.hits++
			action = f.Action
		}
	}
	return action, t.delay
}

func sleep(req *http.Request, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-req.Context().Done():
		return req.Context().Err()
	}
}

// Site names what a request is for: "dynamodb " and the operation, or "s3 ", the
// method (LIST for a listing, DELETE also for that of many) and the kind of key:
// "blobs", "log", "store.json", "bucket", or "other".
func Site(req *http.Request) string {
	if _, operation, ok := strings.Cut(req.Header.Get("X-Amz-Target"), "."); ok {
		return "dynamodb " + operation
	}
	query := req.URL.Query()
	method, key := req.Method, req.URL.Path
	switch {
	case query.Has("delete"):
		return "s3 DELETE other"
	case query.Has("list-type") || query.Has("prefix"):
		method, key = "LIST", "/"+query.Get("prefix")
	}
	return "s3 " + method + " " + keyKind(key)
}

// keyKind names the kind of a key below stores/<store id>/.
func keyKind(key string) string {
	_, inStores, ok := strings.Cut(key, "/stores/")
	if !ok {
		if strings.Count(strings.Trim(key, "/"), "/") == 0 {
			return "bucket"
		}
		return "other"
	}
	_, rest, _ := strings.Cut(inStores, "/")
	kind, _, _ := strings.Cut(rest, "/")
	switch kind {
	case "blobs", "log", "store.json":
		return kind
	}
	return "other"
}
