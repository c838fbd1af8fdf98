// Package manage serves what a server itself has: keys, and the tokens of sessions.
package manage

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"mneme/server/access"
	"mneme/server/reply"
)

// maxBody is how many bytes a request has at most.
const maxBody = 64 << 10

// New returns the handler of the paths of Routes. caller returns who a request is from. Nil now
// is time.Now.
func New(registry *access.Registry, caller func(*http.Request) (*access.Caller, error), logger *slog.Logger, now func() time.Time) http.Handler {
	if now == nil {
		now = time.Now
	}
	mux := http.NewServeMux()
	for _, route := range Routes {
		mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(&call{r, registry, now, nil, nil}, w, caller, &route)
			if err != nil {
				reply.Error(w, r, logger, err)
				return
			}
			reply.JSON(w, r, http.StatusOK, answer)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { reply.Error(w, r, logger, reply.ErrNoRoute) })
	return mux
}

func serve(c *call, w http.ResponseWriter, caller func(*http.Request) (*access.Caller, error), route *Route) (answer any, err error) {
	if c.caller, err = caller(c.Request); err != nil {
		return nil, err
	}
	if route.IsAdmin && !c.caller.IsAdmin() {
		return nil, access.ErrDenied
	}
	if c.Method == http.MethodPost {
		if c.body, err = io.ReadAll(http.MaxBytesReader(w, c.Body, maxBody)); err != nil {
			return nil, reply.BodyError(err)
		}
	}
	return route.do(c.Context(), c)
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
