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
	for at > 0 && kept[at-1].Seq > c.Seq { // two processes that committed at once come in either order
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

// fewVersions is how many versions a commit has, at most, that head looks through.
const fewVersions = 8

// head returns the head at a path after the commit of a tip; nil: the path is free. It is known if
// the newest commit that concerns the path, and all commits between that one and the tip, were
// made by this Log.
func (r *recent) head(storeID string, tip *versionlog.Tip, path string) (head *versionlog.Version, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, seq := r.stores[storeID], tip.Seq
	for i := len(kept) - 1; i >= 0; i-- {
		c := kept[i]
		switch {
		case c.Seq > tip.Seq:
			continue
		case c.Seq != seq, seq == tip.Seq && c.Digest != tip.Digest, len(c.Versions) > fewVersions:
			return nil, false
		}
		for j := len(c.Versions) - 1; j >= 0; j-- {
			switch v := &c.Versions[j]; {
			case v.Redacted(): // and was wherever
				return nil, false
			case v.Path == path && v.Live():
				return new(*v), true
			case v.At(path):
				return nil, true
			}
		}
		seq--
	}
	return nil, false
}

// forget drops what is known of a store that is deleted.
func (r *recent) forget(storeID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stores, storeID)
}
