package mcp_test

import (
	"net/http"
	"sync"

	"mneme/errkind"
	"mneme/mcp"
)

// A server of HTTP keeps a Server for each session, which mcp.New has made of its memory, and
// finds it by what the request proves.
func ExampleHandler() {
	var sessions sync.Map // *mcp.Server, by token
	handler := mcp.Handler(func(r *http.Request) (*mcp.Server, error) {
		server, found := sessions.Load(r.Header.Get("Authorization"))
		if !found {
			return nil, errNoSession
		}
		return server.(*mcp.Server), nil
	}, nil)
	http.Handle("/mcp", http.NewCrossOriginProtection().Handler(handler))
	// Output:
}

var errNoSession = errkind.New(errkind.NotFound, "there is no such session")
