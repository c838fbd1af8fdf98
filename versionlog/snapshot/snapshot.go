// Package snapshot keeps the heads of a store as of one commit in a compressed, paged
// format, which docs/FORMAT.md describes. A snapshot is derived from the log: it never
// changes, is held against the chain of commits before it is believed, and may be deleted
// at any time. Where its objects are kept is the caller's business.
package snapshot

import (
	"context"
	"fmt"
	"iter"

	"mneme/errkind"
	"mneme/versionlog"
)

var (
	// ErrOtherHistory says that a snapshot is not of the history it was held against.
	ErrOtherHistory = errkind.New(errkind.Rewritten, "snapshot is of another history")
	// ErrOrder says that commits or heads do not come in the order in which they should.
	ErrOrder = errkind.New(errkind.Invalid, "not in order")
	// ErrTooLarge says that something is too large to be read again.
	ErrTooLarge = errkind.New(errkind.TooLarge, "too large for a snapshot")
)

// Point says of which commit of which history a snapshot is.
type Point struct {
	StoreID  string
	Creation string         // tells apart stores of one id, one after the other; "" where nothing does
	Tip      versionlog.Tip // right after the commit
}

// Snapshot is one snapshot. Its methods may be called at once from many goroutines.
type Snapshot struct {
	Point
	// HistoryAfter is the sequence number above which Versions knows all commits.
	HistoryAfter uint64
	// KeysAfter is the sequence number above which Keys knows all commits.
	KeysAfter uint64

	source                Source
	heads, memories, keys list
	cache                 cache
}

// Empty returns the snapshot of a store before its first commit. Folding all commits into
// it makes a snapshot from nothing but the log.
func Empty(storeID, creation string) *Snapshot {
	return &Snapshot{Point: Point{StoreID: storeID, Creation: creation}}
}

// Open reads the manifest of a snapshot. Pages are read when they are needed, each held
// against its hash. Errors: versionlog.ErrFormat, versionlog.ErrCorrupt, and what source
// returns for a manifest that is not there.
func Open(ctx context.Context, source Source) (*Snapshot, error) {
	data, err := source.Get(ctx, manifestName, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	m, err := decodeManifest(data)
	if err != nil {
		return nil, fmt.Errorf("manifest of snapshot: %w", err)
	}
	return &Snapshot{
		Point:        Point{StoreID: m.StoreID, Creation: m.Creation, Tip: m.Tip.tip()},
		HistoryAfter: m.HistoryAfter, KeysAfter: m.KeysAfter,
		source: source, heads: m.Heads, memories: m.Memories, keys: m.Keys,
	}, nil
}

// Pages yields the names of the objects besides the manifest.
func (s *Snapshot) Pages() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, l := range []list{s.heads, s.memories, s.keys} {
			for i := range l.Pages {
				if !yield(l.Pages[i].name()) {
					return
				}
			}
		}
	}
}

// put puts the manifest.
func (s *Snapshot) put(ctx context.Context, sink Sink) error {
	m := manifest{
		StoreID: s.StoreID, Creation: s.Creation, Tip: tipOf(s.Tip), HistoryAfter: s.HistoryAfter, KeysAfter: s.KeysAfter,
		Heads: s.heads, Memories: s.memories, Keys: s.keys,
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	if len(data) > maxManifest {
		return fmt.Errorf("manifest of %d bytes, at most %d fit: %w", len(data), maxManifest, ErrTooLarge)
	}
	return sink.Put(ctx, manifestName, data)
}
