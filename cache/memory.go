package cache

import (
	"sync"

	"github.com/dgraph-io/ristretto/v2"

	"mneme/cas"
)

const (
	// entryOverhead is about what an entry costs besides its bytes: the entry,
	// the policy's and the store's records of it, its access counters.
	entryOverhead = 256
	// typicalBlob sizes the access counters, ten per blob that fits.
	typicalBlob = 4 << 10
	minCounters = 1 << 10
)

// entry carries its digest, because ristretto knows a key by a hash only.
type entry struct {
	digest cas.Digest
	data   []byte
}

// memory is the memory tier. A nil *memory is none, and so is a closed one.
type memory struct {
	mu    sync.RWMutex // held for writing only by close: ristretto must not be used after
	cache *ristretto.Cache[string, *entry]
}

func newMemory(limit int64) (*memory, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[string, *entry]{
		NumCounters:        max(10*limit/typicalBlob, minCounters),
		MaxCost:            limit,
		BufferItems:        64,
		IgnoreInternalCost: true, // entryOverhead covers it
	})
	if err != nil {
		return nil, err
	}
	return &memory{cache: cache}, nil
}

func (m *memory) get(d cas.Digest) ([]byte, bool) {
	if m == nil {
		return nil, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.cache == nil {
		return nil, false
	}
	e, ok := m.cache.Get(string(d[:]))
	if !ok || e.digest != d {
		return nil, false
	}
	return e.data, true
}

// put offers the tier data, which it keeps. It waits until ristretto has decided:
// that costs microseconds, and what waits in ristretto's buffer would not count
// against the limit.
func (m *memory) put(d cas.Digest, data []byte) {
	if m == nil {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.cache == nil {
		return
	}
	m.cache.Set(string(d[:]), &entry{digest: d, data: data}, int64(cap(data))+entryOverhead)
	m.cache.Wait()
}

func (m *memory) drop(d cas.Digest) {
	if m == nil {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.cache == nil {
		return
	}
	m.cache.Del(string(d[:]))
	m.cache.Wait()
}

func (m *memory) used() int64 {
	if m == nil {
		return 0
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.cache == nil {
		return 0
	}
	return m.cache.MaxCost() - m.cache.RemainingCost()
}

func (m *memory) close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache != nil {
		m.cache.Close()
		m.cache = nil
	}
}
