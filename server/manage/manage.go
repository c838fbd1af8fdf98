// Package manage serves what a server itself has: keys, and the tokens of sessions.
package manage

import (
	"log/slog"
	"net/http"
	"time"

	"mneme/server/access"
	"mneme/server/reply"
)

// maxBody is how many bytes a request has at most.
const maxBody = 64 << 10

// Register adds the routes to a mux. caller returns who a request is from.
func Register(mux *http.ServeMux, registry *access.Registry, caller func(*http.Request) (*access.Caller, error), logger *slog.Logger, now func() time.Time) {
	for _, route := range Routes {
		mux.HandleFunc(route.Method+" "+route.Path, reply.Handle(logger, func(w http.ResponseWriter, r *http.Request) (answer any, err error) {
			c := &call{Request: r, registry: registry, now: now}
			if c.caller, err = caller(r); err != nil {
				return nil, err
			}
			if route.IsAdmin && !c.caller.IsAdmin() {
				return nil, access.ErrDenied
			}
			if r.Method == http.MethodPost {
				if c.body, err = reply.Body(w, r, maxBody); err != nil {
					return nil, err
				}
			}
			return route.do(r.Context(), c)
		}))
	}
}

// Routes are all operations.
var Routes = []Route{
	{"POST", "/v1/mneme/sessions", false, createSession},
	{"POST", "/v1/mneme/sessions/revoke", false, revokeSession},
	{"POST", "/v1/mneme/keys", true, createKey},
	{"GET", "/v1/mneme/keys", true, listKeys},
	{"GET", "/v1/mneme/keys/{key}", true, getKey},
	{"POST", "/v1/mneme/keys/{key}/disable", true, bare(disableKey)},
	{"POST", "/v1/mneme/keys/{key}/enable", true, bare(enableKey)},
	{"POST", "/v1/mneme/keys/{key}/rotate", true, bare(rotateKey)},
	{"DELETE", "/v1/mneme/keys/{key}", true, deleteKey},
}
