package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"mneme/errkind"
	"mneme/server/openapi"
	"mneme/server/reply"
)

var (
	errHost   = errkind.New(errkind.Policy, "this server is not meant by that host name; the operator may allow it with --host")
	errOrigin = errkind.New(errkind.Policy, "web pages of that origin may not use this server; the operator may allow it with --origin")
)

// isEncoded reports whether a body is compressed. MCP and the plugin refuse such a one in a form of
// their own.
func isEncoded(r *http.Request) bool {
	encoding := strings.Join(r.Header.Values("Content-Encoding"), ",")
	return r.ContentLength != 0 && encoding != "" && !strings.EqualFold(encoding, "identity") && r.URL.Path != "/mcp" && !strings.HasPrefix(r.URL.Path, "/v1/mneme/plugin/")
}

// checker refuses requests that are not meant for this server, from any client.
type checker struct {
	base    string   // path, without a slash at its end
	hosts   []string // none: any
	origins []string
	ready   func(context.Context) error // why the server should be sent no requests
	logger  *slog.Logger
}

// wrap refuses requests that a web page has made without being allowed to, and those that
// came by a name that is not the server's, so that no page can reach a server on the machine
// of the person who looks at it, whatever its name resolves to.
func (c *checker) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.strip(r) || path.Clean(r.URL.Path) != r.URL.Path || r.URL.Path[0] != '/' { // which the router would redirect
			refuse(w, r, c.logger, reply.ErrNoRoute)
			return
		}
		asksHealth := r.URL.Path == "/healthz" || r.URL.Path == "/readyz" // probes use an address
		if !asksHealth && !c.isOurHost(r) {
			refuse(w, r, c.logger, errHost)
			return
		}
		if err := checkQuery(r.URL.RawQuery); err != nil {
			refuse(w, r, c.logger, err)
			return
		}
		if isEncoded(r) {
			refuse(w, r, c.logger, reply.ErrEncoded)
			return
		}
		if origins := r.Header.Values("Origin"); len(origins) > 0 {
			origin := origins[0]
			if len(origins) > 1 || !slices.Contains(c.origins, origin) {
				refuse(w, r, c.logger, errOrigin)
				return
			}
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", reply.RequestID+", Retry-After, X-Should-Retry")
			h.Add("Vary", "Origin")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
				if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" { // SDKs send some of their own
					h.Set("Access-Control-Allow-Headers", asked)
				}
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		open := c.open(r.URL.Path)
		switch {
		case open == nil:
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			refuse(w, r, c.logger, reply.NoMethod(http.MethodGet, http.MethodHead))
		default:
			narrow(r)
			open(w, r)
		}
	})
}

// open returns the handler of a path that needs no credential; nil: the path needs one.
func (c *checker) open(path string) http.HandlerFunc {
	switch path {
	case "/healthz":
		return func(w http.ResponseWriter, _ *http.Request) { health(w, nil) }
	case "/readyz":
		return func(w http.ResponseWriter, r *http.Request) { health(w, c.ready(r.Context())) }
	case openapi.Path:
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(openapi.Document) // the client has gone
		}
	}
	return nil
}

// checkQuery refuses what package url would leave out: a condition that is not understood must not be
// none. Only stores may be there several times.
func checkQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return reply.Invalidf("the query: %v", err)
	}
	for name, values := range query {
		if len(values) > 1 && name != "store" {
			return reply.Invalidf("the query: %.80q is there %d times", name, len(values))
		}
	}
	return nil
}

func (c *checker) isOurHost(r *http.Request) bool {
	if len(c.hosts) == 0 || visitOf(r).from == "unix" {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(strings.TrimSuffix(host, "."), "[]")
	return slices.ContainsFunc(c.hosts, func(ours string) bool { return strings.EqualFold(ours, host) })
}

// health answers a question about the server's state, which needs no credential.
func health(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("not ready\n"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// strip removes the base path of a request; ok is false where it has another.
func (c *checker) strip(r *http.Request) (ok bool) {
	if c.base == "" {
		return true
	}
	rest, ok := strings.CutPrefix(r.URL.Path, c.base)
	raw, okRaw := strings.CutPrefix(r.URL.RawPath, c.base)
	if !ok || rest != "" && rest[0] != '/' || r.URL.RawPath != "" && !okRaw {
		return false
	}
	if r.URL.Path, r.URL.RawPath = rest, raw; rest == "" {
		r.URL.Path = "/"
	}
	return true
}
