// Package snapshot keeps the heads of a store as of one commit in a compressed, paged
// format, which docs/FORMAT.md describes. A snapshot is derived from the log: it never
// changes, is held against the chain of commits before it is believed, and may be deleted
// at any time. Where its objects are kept is the caller's business.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"mneme/errkind"
	"mneme/versionlog"
)

// ErrOtherHistory says that a snapshot is not of the history it was held against.
var ErrOtherHistory = errkind.New(errkind.Rewritten, "snapshot is of another history")

// Source has the objects of snapshots by their names.
type Source interface {
	// Get returns an object. Of one that has more than limit bytes it returns an error, or
	// more than limit bytes. The error is an fs.ErrNotExist or a versionlog.ErrNotFound
	// where there is no such object.
	Get(ctx context.Context, name string, limit int) ([]byte, error)
}

// Sink keeps the objects of snapshots.
type Sink interface {
	// Put keeps an object. It is given the manifest last, and pages before, whose names
	// are made of their contents.
	Put(ctx context.Context, name string, data []byte) error
}

// Point says of which commit of which history a snapshot is.
type Point struct {
	StoreID  string
	Creation string         // tells apart stores of one id, one after the other; "" where nothing does
	Tip      versionlog.Tip // right after the commit, but for ArchivedAt, which is zero
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
	s, err := decodeManifest(data)
	if err != nil {
		return nil, fmt.Errorf("manifest of snapshot: %w", err)
	}
	s.source = source
	return s, nil
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

// Check reads all of the snapshot and returns an error unless it is whole.
func (s *Snapshot) Check(ctx context.Context) error {
	for _, err := range s.Heads(ctx) {
		if err != nil {
			return err
		}
	}
	for _, err := range all(ctx, s, &s.memories, "", decodeStretch) {
		if err != nil {
			return err
		}
	}
	for _, err := range s.Keys(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Versions returns the sequence numbers of the commits above HistoryAfter that have a
// version of a memory, oldest first.
func (s *Snapshot) Versions(ctx context.Context, memoryID string) ([]uint64, error) {
	var seqs []uint64
	for one, err := range all(ctx, s, &s.memories, stretchKey(memoryID, 0), decodeStretch) {
		if err != nil {
			return nil, err
		}
		if one.MemoryID != memoryID {
			break
		}
		seqs = append(seqs, one.Seqs...)
	}
	return seqs, nil
}

// Keys yields the idempotency keys of the commits above KeysAfter in their order.
func (s *Snapshot) Keys(ctx context.Context) iter.Seq2[Key, error] {
	return all(ctx, s, &s.keys, "", decodeKey)
}

// FromFS returns the objects that are files.
func FromFS(files fs.FS) Source { return fileSource{files} }

type fileSource struct{ files fs.FS }

func (f fileSource) Get(_ context.Context, name string, limit int) ([]byte, error) {
	file, err := f.files.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	return data, errors.Join(err, file.Close())
}
