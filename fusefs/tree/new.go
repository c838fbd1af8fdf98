package tree

import (
	"context"
	"sync"

	"mneme/memory"
)

// New returns a tree that has yet to load. mu is the lock of the mount that it is part of; life
// ends the reads that several requests share.
func New(life context.Context, mu *sync.RWMutex, store *memory.Store, opts *Options) *Tree {
	t := &Tree{
		mu: mu, store: store, life: life, ids: opts.IDs, session: opts.Session, told: opts.Told, owner: opts.Owner, opts: *opts, log: opts.Logger, begin: opts.Begin,
		freed: map[string]uint64{}, emptied: map[string]uint64{},
		loading: loading{asked: map[string]bool{}, doubtful: map[*Entry]bool{}},
	}
	t.root = t.newEntry(opts.RootMode, opts.Since)
	return t
}
