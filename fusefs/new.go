package fusefs

import (
	"context"
	"sync"

	"mneme/memory"
)

// newTree returns a tree that has yet to load.
func newTree(life context.Context, mu *sync.RWMutex, store *memory.Store, numbers *ids, session treeSession, told treeTold, owner *store, opts *treeOptions) *tree {
	t := &tree{
		mu: mu, store: store, ids: numbers, session: session, told: told, owner: owner, opts: *opts, log: opts.Logger, life: life, begin: opts.Begin,
		gone: map[string]uint64{}, emptied: map[string]uint64{},
		loading: loading{asked: map[string]bool{}, doubtful: map[*node]bool{}},
	}
	t.root = t.newNode(opts.RootMode, opts.Since)
	return t
}
