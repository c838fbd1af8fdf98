package kernelcache

import (
	"context"

	"mneme/memory"
)

// Source is the tree that a Prefetcher fetches from. Its methods take the mount's lock
// themselves, except PushableLocked. They are called at once from many goroutines.
type Source interface {
	// List returns what is in a directory, in the order of its listing: what comes after one of
	// them, or everything if after is nil.
	List(dir, after Node) []Node
	// Each calls do with everything that is in a directory, in any order. do does not block.
	Each(dir Node, do func(Node))
	// Parent returns the directory in which a node is; nil if there is none in its store.
	Parent(n Node) Node
	// Head returns the version whose bytes a reader of a file gets; nil if it gets others than
	// those of a version.
	Head(n Node) *memory.Head
	// PushableLocked reports whether the bytes of a version are good for all that will read a file.
	// It is called with the mount's lock held.
	PushableLocked(n Node, head *memory.Head) bool
	// BatchSize returns how many files of a node's store are worth reading together.
	BatchSize(n Node) int
	// Contents returns the bytes of versions of a node's store, nil where they cannot be read.
	Contents(ctx context.Context, n Node, heads []*memory.Head) [][]byte
}
