package sqlitelog

import (
	"slices"
	"sync"

	"mneme/versionlog"
)

// maxRecent is how many commits of each store are kept at hand.
const maxRecent = 64

// recent are the newest commits that this Log made, by store, in their order
// but perhaps with gaps: between them stand other processes' commits. They
// spare followers in this process reading and decoding them.
type recent struct {
	mu     sync.Mutex // guards stores
	stores map[string][]*versionlog.Commit
}

// add keeps a copy: the commit is its caller's.
func (r *recent) add(c *versionlog.Commit) {
	own := *c
	own.Versions, own.Seals = slices.Clone(c.Versions), slices.Clone(c.Seals)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stores == nil {
		r.stores = make(map[string][]*versionlog.Commit)
	}
	kept := r.stores[c.StoreID]
	at := len(kept)
	for at > 0 && kept[at-1].Seq > c.Seq { // two who committed at once come in either order
		at--
	}
	kept = slices.Insert(kept, at, &own)
	r.stores[c.StoreID] = kept[max(0, len(kept)-maxRecent):]
}

// above returns the commits that follow one another from after on, which may
// be none.
func (r *recent) above(storeID string, after uint64) []*versionlog.Commit {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.stores[storeID]
	from := slices.IndexFunc(kept, func(c *versionlog.Commit) bool { return c.Seq == after+1 })
	if from < 0 {
		return nil
	}
	to := from + 1
	for to < len(kept) && kept[to].Seq == kept[to-1].Seq+1 {
		to++
	}
	return slices.Clone(kept[from:to])
}

// forget drops what is known of a store that is deleted.
func (r *recent) forget(storeID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stores, storeID)
}
