package mcp

import (
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/tools"
)

// face is the common base of the tools and resources of a server.
type face struct {
	*tools.Memory
	key      []byte           // signs request states
	now      func() time.Time // of the expiry of request states
	searches chan struct{}    // holds as many as run
}

// maxSearches bounds how many searches run at once: each reads some MiB at a time.
const maxSearches = 2

// NewSearches returns an Options.Searches.
func NewSearches() chan struct{} { return make(chan struct{}, maxSearches) }

// isReadOnly reports whether no store can be written to.
func (f *face) isReadOnly() bool {
	for _, s := range f.Stores() {
		if !s.ReadOnly {
			return false
		}
	}
	return true
}

// specs returns the tools that the stores have a use for.
func (f *face) specs() []*spec {
	all := specs(f.isReadOnly())
	if f.KeepsConflicts() {
		return all
	}
	return slices.DeleteFunc(all, func(s *spec) bool { return s.Name == "conflicts" })
}

// store returns the store in which a path of the tool is, and the path in it; false if it is in
// none.
func (f *face) store(path string) (s tools.StoreInfo, inside string, found bool) {
	for _, s := range f.Stores() {
		if inside, below := strings.CutPrefix(path, s.Path); below && (inside == "" || inside[0] == '/') {
			return s, inside, true
		}
	}
	return tools.StoreInfo{}, "", false
}

// pathOf returns the path in the tool of a path in a store.
func (f *face) pathOf(store, path string) string {
	for _, s := range f.Stores() {
		if s.ID == store || s.Slug == store {
			return s.Path + path
		}
	}
	return path
}

// isByHTTP reports whether a request has come by HTTP.
func isByHTTP(r sdk.Request) bool { return r.GetExtra() != nil && r.GetExtra().Header != nil }
