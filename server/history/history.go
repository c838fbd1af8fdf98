// Package history serves what a store can do with its history besides the published API: several
// changes at once, bringing back an earlier state, and the differences between two.
package history

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"mneme/server/access"
	"mneme/server/reply"
)

// Route is one operation on a store.
type Route struct {
	Method, Path string
	Right        access.Right
	do           func(context.Context, *call) (any, error)
	params       []string
}

// Routes are all operations.
var Routes = []Route{
	{"POST", "/v1/mneme/stores/{store}/batch", access.Write, batch, nil},
	{"POST", "/v1/mneme/stores/{store}/restore", access.Write, restore, nil},
	{"GET", "/v1/mneme/stores/{store}/diff", access.Read, diff, []string{"from", "to", "path", "page"}},
}

// Register adds the routes to a mux. caller returns who a request is from.
func Register(mux *http.ServeMux, caller func(*http.Request) (*access.Caller, error), logger *slog.Logger, now func() time.Time) {
	for _, route := range Routes {
		mux.HandleFunc(route.Method+" "+route.Path, reply.Handle(logger, func(w http.ResponseWriter, r *http.Request) (answer any, err error) {
			c := &call{Request: r, now: now}
			if c.caller, err = caller(r); err != nil {
				return nil, err
			}
			if c.store, err = c.caller.Open(r.Context(), r.PathValue("store"), route.Right); err != nil {
				return nil, err
			}
			if err = reply.CheckQuery(r, route.params...); err != nil {
				return nil, err
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
