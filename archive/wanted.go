package archive

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// wanted are the contents that records or heads need.
type wanted map[cas.Digest]versionlog.Version // one of the versions that have it

// add notes what a version needs. It returns an error when the version says something
// else of a content than another one, or what no content can be.
func (w wanted) add(v *versionlog.Version) error {
	if v.Redacted() || v.Digest.IsZero() {
		return nil
	}
	if v.Size < 0 || v.Size > memory.LargestMaxMemoryBytes {
		return fmt.Errorf("version %s has a content of %d bytes; a memory has at most %d", v.ID, v.Size, int64(memory.LargestMaxMemoryBytes))
	}
	if other, known := w[v.Digest]; known && other.Size != v.Size {
		return fmt.Errorf("versions %s and %s have the same content, of %d and of %d bytes", other.ID, v.ID, other.Size, v.Size)
	}
	w[v.Digest] = *v // the newest says best what it is
	return nil
}

// sorted returns the digests in order.
func (w wanted) sorted() []cas.Digest {
	return slices.SortedFunc(maps.Keys(w), func(a, b cas.Digest) int { return bytes.Compare(a[:], b[:]) })
}
