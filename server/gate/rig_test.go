package gate

import (
	"net/http"
	"path/filepath"
	"testing"

	"mneme/cas"
	"mneme/forget"
	"mneme/memory"
	"mneme/server/access"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is the handler over a library in memory, with a caller that a test changes.
type rig struct {
	*testing.T
	handler *Handler
	lib     *memory.Library
	caller  *access.Caller
	store   versionlog.Store
	kept    string // the directory of kept conflicts
}

func newRig(t *testing.T, opts *memory.StoreOptions) *rig {
	blobs := newBlobs()
	r := &rig{T: t, kept: t.TempDir(), lib: memory.NewLibrary(memlog.New(nil), func(id string) (cas.Store, error) { return blobs.of(id), nil })}
	r.caller = &access.Caller{Library: r.lib, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_1"}, Everywhere: access.Admin}
	r.handler = New(func(*http.Request) (*access.Caller, error) {
		if r.caller == nil {
			return nil, access.ErrUnauthenticated
		}
		return r.caller, nil
	}, &Options{Machine: &forget.Machine{Conflicts: func(id string) *conflict.Store { return conflict.New(filepath.Join(r.kept, id)) }}})
	var err error
	if r.store, err = r.lib.CreateStore(t.Context(), "Notes", opts); err != nil {
		t.Fatal(err)
	}
	return r
}
