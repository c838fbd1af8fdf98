// Package agent serves agents without a shell and their hosts over HTTP: the Model Context Protocol,
// the memory tool, and the plugin contract. They reach the stores that their credential reaches.
package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"mneme/mcp"
	"mneme/server/access"
	"mneme/server/reply"
)

// Handler answers the requests of Routes. Close it when none is under way any more.
type Handler struct {
	Options
	caller func(*http.Request) (*access.Caller, error)
	desks  desks
	mcp    http.Handler
}

// New returns a handler. caller returns who a request is from, whose host and origin were
// checked, too.
func New(caller func(*http.Request) (*access.Caller, error), opts *Options) *Handler {
	h := &Handler{caller: caller}
	if opts != nil {
		h.Options = *opts
	}
	if h.Logger == nil {
		h.Logger = slog.New(slog.DiscardHandler)
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	h.desks = desks{Options: h.Options, most: maxDesks, byName: map[string]*desk{}, search: map[string]chan struct{}{}}
	h.mcp = mcp.Handler(serverOf, &mcp.HandlerOptions{MaxBody: maxBody, Checked: true, Linger: h.Linger})
	return h
}

// Close returns when nothing works in the background any more.
func (h *Handler) Close() { h.desks.close() }

// Route is one operation.
type Route struct {
	Method, Path string
	serve        func(*Handler, http.ResponseWriter, *http.Request)
}

// searchPatience is how long a recall waits for other searches of its key: as long as it may take itself.
const searchPatience = 2 * time.Second

var errSearching = reply.Unavailable("too many searches of this key are under way; try again")

// ToolPath is where calls of the memory tool are done.
const ToolPath = "/v1/mneme/tools/memory"

// Routes are all operations. The parameter store, which may be there several times, says which of
// the stores that the caller sees are meant; without it all are.
var Routes = []Route{
	{"POST", "/mcp", (*Handler).serveMCP},
	{"POST", ToolPath, (*Handler).tool},
	{"POST", "/v1/mneme/plugin/recall", (*Handler).recall},
	{"POST", "/v1/mneme/plugin/remember", (*Handler).remember},
	{"GET", "/v1/mneme/plugin/health", (*Handler).health},
}

// Register adds the routes to a mux. That of the Model Context Protocol answers what it is not
// itself, since clients ask with GET whether they may.
func (h *Handler) Register(mux *http.ServeMux) {
	for _, route := range Routes {
		pattern := route.Method + " " + route.Path
		if route.Path == "/mcp" {
			pattern = route.Path
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { route.serve(h, w, r) })
	}
}

// enter returns the desk of a request, which calls leave at its end.
func (h *Handler) enter(r *http.Request) (d *desk, leave func(), err error) {
	c, err := h.caller(r)
	if err != nil {
		return nil, nil, err
	}
	if err := reply.CheckQuery(r, "store"); err != nil {
		return nil, nil, err
	}
	return h.desks.enter(r.Context(), c, r.URL.Query()["store"])
}

// entered is what serverOf returns for a request.
type entered struct {
	server *mcp.Server
	err    error
}

type enteredKey struct{}

func serverOf(r *http.Request) (*mcp.Server, error) {
	e := r.Context().Value(enteredKey{}).(entered)
	return e.server, e.err
}

// serveMCP answers a request of the Model Context Protocol; errors, too, are in its form.
func (h *Handler) serveMCP(w http.ResponseWriter, r *http.Request) {
	d, leave, err := h.enter(r)
	e := entered{err: err}
	if err == nil {
		defer leave()
		e.server = d.mcp
	}
	h.mcp.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), enteredKey{}, e)))
}

// tool does a call of the memory tool. Errors of a call are texts for the model.
func (h *Handler) tool(w http.ResponseWriter, r *http.Request) {
	d, leave, err := h.enter(r)
	if err != nil {
		reply.Error(w, r, h.Logger, err)
		return
	}
	defer leave()
	input, err := reply.Body(w, r, maxBody)
	if err == nil && !json.Valid(input) {
		err = reply.Invalidf("the body is no JSON: it must be the input of the tool")
	}
	if err != nil {
		reply.Error(w, r, h.Logger, err)
		return
	}
	result := d.memory.Call(r.Context(), input)
	reply.JSON(w, r, http.StatusOK, result.Answer())
}

func (h *Handler) recall(w http.ResponseWriter, r *http.Request) {
	h.plugin(w, r, func(d *desk) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			patience, cancel := context.WithTimeout(r.Context(), searchPatience)
			defer cancel()
			select {
			case d.search <- struct{}{}:
				defer func() { <-d.search }()
				d.plugin.ServeRecall(w, r)
			case <-patience.Done():
				reply.Error(w, r, h.Logger, errSearching)
			}
		}
	})
}

func (h *Handler) remember(w http.ResponseWriter, r *http.Request) {
	h.plugin(w, r, func(d *desk) http.HandlerFunc { return d.plugin.ServeRemember })
}

func (h *Handler) health(w http.ResponseWriter, r *http.Request) {
	h.plugin(w, r, func(d *desk) http.HandlerFunc { return d.plugin.ServeHealth })
}

// plugin answers a request of the plugin contract.
func (h *Handler) plugin(w http.ResponseWriter, r *http.Request, method func(*desk) http.HandlerFunc) {
	d, leave, err := h.enter(r)
	if err != nil {
		reply.Error(w, r, h.Logger, err)
		return
	}
	defer leave()
	method(d)(w, r)
}
