// Package history serves what a store can do with its history besides the published API: several
// changes at once, bringing back an earlier state, and the differences between two.
package history

import (
	"context"
	"io"
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
}

// Routes are all operations.
var Routes = []Route{
	{"POST", "/v1/mneme/stores/{store}/batch", access.Write, batch},
	{"POST", "/v1/mneme/stores/{store}/restore", access.Write, restore},
	{"GET", "/v1/mneme/stores/{store}/diff", access.Read, diff},
}

// Register adds the routes to a mux. caller returns who a request is from.
func Register(mux *http.ServeMux, caller func(*http.Request) (*access.Caller, error), logger *slog.Logger, now func() time.Time) {
	for _, route := range Routes {
		mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(&call{Request: r, now: now}, w, caller, &route)
			if err != nil {
				reply.Error(w, r, logger, err)
				return
			}
			reply.JSON(w, r, http.StatusOK, answer)
		})
	}
}

func serve(c *call, w http.ResponseWriter, caller func(*http.Request) (*access.Caller, error), route *Route) (answer any, err error) {
	if c.caller, err = caller(c.Request); err != nil {
		return nil, err
	}
	if c.store, err = c.caller.Open(c.Context(), c.PathValue("store"), route.Right); err != nil {
		return nil, err
	}
	if c.Method == http.MethodPost {
		if c.body, err = io.ReadAll(http.MaxBytesReader(w, c.Body, maxBody)); err != nil {
			return nil, reply.BodyError(err)
		}
	}
	return route.do(c.Context(), c)
}
