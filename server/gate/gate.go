// Package gate is the server of the gateway protocol, which docs/GATEWAY.md describes: a
// version log and its blobs over HTTP, as far as a caller reaches. Package access decides
// which operations a caller may call, and package memory which contents and paths it may
// write; a handler has no other way to a store.
package gate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"mneme/server/access"
)

// New returns the handler of the paths of the gateway. caller returns who a request is from,
// or an error of package access.
func New(caller func(*http.Request) (*access.Caller, error), opts *Options) *Handler {
	h := newHandler(viewOf(caller), opts)
	if opts != nil && opts.Again != nil {
		h.again = viewOf(opts.Again)
	}
	return h
}

func viewOf(caller func(*http.Request) (*access.Caller, error)) func(*http.Request) (*view, error) {
	return func(r *http.Request) (*view, error) {
		c, err := caller(r)
		if err != nil {
			return nil, err
		}
		return &view{c.Log(), c.Blobs, c.Actor.ID, c}, nil
	}
}

// maxBuffered is how many bytes of bodies with contents are held at once.
const maxBuffered = 256 << 20

func newHandler(open func(*http.Request) (*view, error), opts *Options) *Handler {
	h := &Handler{mux: http.NewServeMux(), open: open, again: open, log: slog.New(slog.DiscardHandler), recheck: 5 * time.Second, erased: func() bool { return false }, closing: make(chan struct{}), room: newRoom(maxBuffered)}
	if opts != nil {
		h.linger, h.machine = opts.Linger, opts.Machine
		if opts.Erased != nil {
			h.erased = opts.Erased
		}
		if opts.Logger != nil {
			h.log = opts.Logger
		}
		if opts.MaxBuffered != 0 {
			h.room = newRoom(opts.MaxBuffered)
		}
		if opts.Recheck != 0 {
			h.recheck = opts.Recheck
		}
	}
	for _, route := range Routes {
		h.mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, route) })
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		(&call{Handler: h, w: w, Request: r}).refuse(errNoOperation)
	})
	return h
}

// ServeHTTP is part of http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// EndPolls has those who wait for commits ask another server, now and from now on: this one is
// about to end.
func (h *Handler) EndPolls() { h.close.Do(func() { close(h.closing) }) }

// serve answers a request of a route. Where the caller's credential ends to count while it
// lasts, it ends.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, route Route) {
	c := &call{Handler: h, w: w, Request: r}
	var err error
	if c.view, err = h.open(r); err != nil {
		c.refuse(err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := h.watch(r, cancel)
	defer stop()
	c.Request = r.WithContext(ctx)
	if err := route.do(c); err != nil {
		c.refuse(c.cause(err))
	}
}

// watch ends a request by cancel once its caller does not count any more.
func (h *Handler) watch(r *http.Request, cancel context.CancelCauseFunc) (stop func()) {
	var mu sync.Mutex // guards timer and ended
	var timer *time.Timer
	ended := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(h.recheck, func() {
		_, err := h.again(r)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ended:
		case errors.Is(err, access.ErrUnauthenticated):
			cancel(err)
		default: // whether it counts cannot be told just now
			timer.Reset(h.recheck)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		timer.Stop()
	}
}
