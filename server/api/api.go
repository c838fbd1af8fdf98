// Package api serves the memory-stores API over HTTP: stores, memories and their versions,
// with the paths, fields, rules and errors that docs/API.md lists. Package access decides
// the rights of a caller in each store; a handler has no other way to a store.
package api

import (
	"log/slog"
	"net/http"

	"mneme/server/access"
	"mneme/server/reply"
)

// Register adds the routes to a mux. caller returns who a request is from, or an error of package
// access.
func Register(mux *http.ServeMux, caller func(*http.Request) (*access.Caller, error), opts *Options) {
	a := &api{caller: caller, Options: Options{MaxBody: 1 << 20, Logger: slog.New(slog.DiscardHandler)}}
	if opts != nil {
		if opts.MaxBody != 0 {
			a.MaxBody = opts.MaxBody
		}
		a.Machine = opts.Machine
		if opts.Logger != nil {
			a.Logger = opts.Logger
		}
	}
	for _, r := range Routes {
		mux.HandleFunc(r.Method+" "+r.Path, reply.Handle(a.Logger, func(w http.ResponseWriter, q *http.Request) (any, error) { return a.serve(w, q, r) }))
	}
}

// Routes are all operations. The right is that in the store of the path; of the routes
// without one it is that in any store.
var Routes = []Route{
	{"POST", "/v1/memory_stores", "stores.create", access.Admin, createStore},
	{"GET", "/v1/memory_stores", "stores.list", access.Read, listStores},
	{"GET", "/v1/memory_stores/{store}", "stores.get", access.Read, getStore},
	{"POST", "/v1/memory_stores/{store}", "stores.update", access.Admin, updateStore},
	{"DELETE", "/v1/memory_stores/{store}", "stores.delete", access.Admin, deleteStore},
	{"POST", "/v1/memory_stores/{store}/archive", "stores.archive", access.Admin, archiveStore},
	{"POST", "/v1/memory_stores/{store}/memories", "memories.create", access.Write, createMemory},
	{"GET", "/v1/memory_stores/{store}/memories", "memories.list", access.Read, listMemories},
	{"GET", "/v1/memory_stores/{store}/memories/{memory}", "memories.get", access.Read, getMemory},
	{"POST", "/v1/memory_stores/{store}/memories/{memory}", "memories.update", access.Write, updateMemory},
	{"PATCH", "/v1/memory_stores/{store}/memories/{memory}", "memories.update", access.Write, updateMemory},
	{"DELETE", "/v1/memory_stores/{store}/memories/{memory}", "memories.delete", access.Write, deleteMemory},
	{"GET", "/v1/memory_stores/{store}/memory_versions", "versions.list", access.Read, listVersions},
	{"GET", "/v1/memory_stores/{store}/memory_versions/{version}", "versions.get", access.Read, getVersion},
	{"POST", "/v1/memory_stores/{store}/memory_versions/{version}/redact", "versions.redact", access.Admin, redactVersion},
}
