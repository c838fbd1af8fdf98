package forget

import (
	"bytes"
	"context"
	"slices"

	"mneme/cas"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// Machine has the copies of a library's stores that a machine keeps apart from log and
// contents.
type Machine struct {
	Conflicts    func(storeID string) *conflict.Store                              // in whose directory mounts have their spools
	Importing    func(storeID string) (bool, error)                                // reports whether an import has begun and not ended
	EraseOrphans func(ctx context.Context, storeID string) (contents int, _ error) // those of no version; nil: a redaction leaves none
	// EraseLeft removes files of contents that killed processes have left half written. Nil: there are none.
	EraseLeft func(ctx context.Context, storeID string, has func(text []byte) bool) (files int, _ error)
	// Behind has the server behind the library do what EraseKept does. Nil: there is none.
	Behind func(ctx context.Context, storeID string, versions []string, contents []cas.Digest, text string) ([]versionlog.Purged, error)
}

// Request names the versions and texts to erase.
type Request struct {
	Versions []string     // ids; those that are erased already are passed over
	Contents []cas.Digest // of these versions, by which their texts are found where no version is named
	Text     string       // that is searched in kept texts and their paths; "": none
	Reason   string       // which stays in the history, and must not repeat what is erased
}

// has reports whether a text, or a path, must be erased.
func (r *Request) has(text []byte) bool {
	return r.Text != "" && bytes.Contains(text, []byte(r.Text)) || len(r.Contents) > 0 && slices.Contains(r.Contents, cas.Sum(text))
}
