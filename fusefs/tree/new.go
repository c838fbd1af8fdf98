package tree

import (
	"context"
	"sync"

	"mneme/memory"
)

// New returns a tree that has yet to load.
func New(life context.Context, mu *sync.RWMutex, store *memory.Store, numbers *IDs, session Session, told Invalidator, owner any, opts *Options) *Tree {
	t := &Tree{
		mu: mu, store: store, ids: numbers, session: session, told: told, owner: owner, opts: *opts, log: opts.Logger, life: life, begin: opts.Begin,
		freed: map[string]uint64{}, emptied: map[string]uint64{},
		loading: loading{asked: map[string]bool{}, doubtful: map[*Entry]bool{}},
	}
	t.root = t.newEntry(opts.RootMode, opts.Since)
	return t
}
