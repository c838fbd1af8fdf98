package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mneme/forget"
	"mneme/internal/strictjson"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/reply"
)

// Options are the settings of New; nil and a zero field are the default.
type Options struct {
	MaxBody int64           // bytes of a request; 1 MiB, which holds the largest memory of a usual store however it is escaped
	Logger  *slog.Logger    // for errors of the server; nil: none
	Machine *forget.Machine // has the copies of the stores on the server's machine; nil: none
}

type api struct {
	caller func(*http.Request) (*access.Caller, error)
	Options
}

// Route is one operation.
type Route struct {
	Method, Path string
	Name         string // of the operation, such as memories.create
	Right        access.Right
	do           func(context.Context, *call) (any, error)
}

// expectedSum is the parameter with what a memory that is deleted must hold.
const expectedSum = "expected_content_sha256"

// conditions are the parameters on which a deletion may depend.
func (r *Route) conditions() []string {
	if r.Name == "memories.delete" {
		return []string{expectedSum}
	}
	return nil
}

// call is one request, as far as it was checked.
type call struct {
	*api
	*http.Request
	caller *access.Caller
	route  *Route
	body   []byte
}

// open opens the store of the path, in which the caller has the route's right.
func (c *call) open(ctx context.Context) (*memory.Store, error) {
	return c.caller.Open(ctx, c.PathValue("store"), c.route.Right)
}

// serve does what a request of a route asks for.
func (a *api) serve(w http.ResponseWriter, r *http.Request, route Route) (answer any, err error) {
	c := &call{api: a, Request: r, route: &route}
	if c.caller, err = a.caller(r); err != nil {
		return nil, err
	}
	if err := checkBeta(r.Header); err != nil {
		return nil, err
	}
	if r.Method == http.MethodDelete {
		if err := reply.CheckQuery(r, route.conditions()...); err != nil {
			return nil, err
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if c.body, err = reply.Body(w, r, a.MaxBody); err != nil {
			return nil, err
		}
	}
	return route.do(r.Context(), c)
}

// checkBeta refuses a request that names both forms of the API which it may name.
func checkBeta(h http.Header) error {
	var named []string
	for _, text := range h.Values("Anthropic-Beta") {
		for one := range strings.SplitSeq(text, ",") {
			named = append(named, strings.TrimSpace(one))
		}
	}
	if slices.Contains(named, "agent-memory-2026-07-22") && slices.Contains(named, "managed-agents-2026-04-01") {
		return reply.Invalidf("anthropic-beta: agent-memory-2026-07-22 and managed-agents-2026-04-01 cannot be given together")
	}
	return nil
}

// limits bound what JSON a request may have.
var limits = strictjson.Limits{Depth: 4, Values: 1000}

// object returns the body, an object. An empty body is an empty object.
func (c *call) object() (*strictjson.Object, error) {
	body := c.body
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return strictjson.Parse(body, &limits)
}

// empty returns an error where the body has a field.
func (c *call) empty() error {
	o, err := c.object()
	if err != nil {
		return err
	}
	return o.Done()
}

// times are the filters of a list by time, inclusive.
func (c *call) times() (from, to time.Time, err error) {
	q := c.URL.Query()
	for name, at := range map[string]*time.Time{"created_at[gte]": &from, "created_at[lte]": &to} {
		if !q.Has(name) {
			continue
		}
		if *at, err = time.Parse(time.RFC3339Nano, q.Get(name)); err != nil {
			return from, to, reply.Invalidf("%s: it must be a time of RFC 3339", name)
		}
	}
	return from, to, nil
}

// isFull reports whether contents are wanted; byDefault is the answer where nothing says.
func (c *call) isFull(byDefault bool) (bool, error) {
	switch view := c.URL.Query().Get("view"); view {
	case "":
		return byDefault, nil
	case "full", "basic":
		return view == "full", nil
	}
	return false, reply.Invalidf("view: it must be basic or full")
}

// Limits of the pages of lists.
const (
	defaultLimit = 20
	maxLimit     = 100
	maxFullLimit = 20 // with contents
)

// limit is how many things a page has.
func (c *call) limit(full bool) (int, error) {
	most := maxLimit
	if full {
		most = maxFullLimit
	}
	text := c.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, reply.Invalidf("limit: it must be from 1 to %d", most)
	}
	return n, nil
}

// flag is a parameter that is true or false.
func (c *call) flag(name string) (bool, error) {
	switch text := strings.ToLower(c.URL.Query().Get(name)); text {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, reply.Invalidf("%s: it must be true or false", name)
}
