package memory

import (
	"container/list"
	"sync"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// unclaimed are contents that were put into a store with a quota of bytes, and that no
// commit has named since. They count against the quota, so that no writer fills a disk with
// contents that no history has. A library knows only the contents that went through it.
type unclaimed struct {
	mu     sync.Mutex // guards the fields below, and all puts
	stores map[string]*puts
}

// puts are the unclaimed contents of a store.
type puts struct {
	all   map[cas.Digest]*list.Element
	byAge list.List // of put, the oldest first
	bytes int64     // of all
}

type put struct {
	digest cas.Digest
	size   int64
	at     time.Time
}

// A content counts for as long as `mneme gc` leaves it alone, and for a block of a disk at least.
const (
	unclaimedFor = 24 * time.Hour
	block        = 4096
)

// add notes a content of n bytes.
func (u *unclaimed) add(storeID string, d cas.Digest, n int64, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stores == nil {
		u.stores = map[string]*puts{}
	}
	of := u.stores[storeID]
	if of == nil {
		of = &puts{all: map[cas.Digest]*list.Element{}}
		u.stores[storeID] = of
	}
	of.removeLocked(d)
	one := put{d, max(n, block), now}
	of.all[d] = of.byAge.PushBack(one)
	of.bytes += one.size
}

// bytes is how much a store has of them.
func (u *unclaimed) bytes(storeID string, now time.Time) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.stores[storeID]
	if of == nil {
		return 0
	}
	for e := of.byAge.Front(); e != nil && now.Sub(e.Value.(put).at) > unclaimedFor; e = of.byAge.Front() {
		of.removeLocked(e.Value.(put).digest)
	}
	u.dropLocked(storeID)
	return of.bytes
}

// claim notes that a commit has named contents.
func (u *unclaimed) claim(storeID string, changes []versionlog.Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.stores[storeID]
	if of == nil {
		return
	}
	for i := range changes {
		of.removeLocked(changes[i].Digest)
	}
	u.dropLocked(storeID)
}

// dropLocked forgets a store that has none.
func (u *unclaimed) dropLocked(storeID string) {
	if len(u.stores[storeID].all) == 0 {
		delete(u.stores, storeID)
	}
}

func (p *puts) removeLocked(d cas.Digest) {
	if e := p.all[d]; e != nil {
		p.bytes -= p.byAge.Remove(e).(put).size
		delete(p.all, d)
	}
}
