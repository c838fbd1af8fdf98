package backend

import (
	"sync"

	"mneme/cache"
	"mneme/cas"
)

// blobCaches are the blob stores of a library, each opened once.
type blobCaches struct {
	backend func(storeID string) (cas.Store, error)
	direct  bool           // no caches
	options *cache.Options // of each

	mu     sync.Mutex // guards caches
	caches map[string]*cache.Cache
}

func (b *blobCaches) open(storeID string) (cas.Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.caches[storeID]; ok {
		return c, nil
	}
	blobs, err := b.backend(storeID)
	if err != nil || b.direct {
		return blobs, err
	}
	c, err := cache.New(blobs, b.options)
	if err != nil {
		return nil, err
	}
	if b.caches == nil {
		b.caches = map[string]*cache.Cache{}
	}
	b.caches[storeID] = c
	return c, nil
}

// forget empties the caches of a store, and so the disk tier of all.
func (b *blobCaches) forget(storeID string) error {
	blobs, err := b.open(storeID)
	if err != nil {
		return err
	}
	return cas.Forget(blobs)
}

// salvage finds a blob in the disk tier of the caches.
func (b *blobCaches) salvage(d cas.Digest) ([]byte, bool) {
	if b.options == nil {
		return nil, false
	}
	return cache.Lookup(b.options.Dir, d)
}

// stats adds up what the caches did.
func (b *blobCaches) stats() cache.Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum cache.Stats
	for _, c := range b.caches {
		s := c.Stats()
		sum.MemoryHits += s.MemoryHits
		sum.DiskHits += s.DiskHits
		sum.Misses += s.Misses
		sum.FetchedBytes += s.FetchedBytes
		sum.Corrupt += s.Corrupt
		sum.Evictions += s.Evictions
		sum.DiskErrors += s.DiskErrors
		sum.MemoryBytes += s.MemoryBytes
		sum.DiskBytes = max(sum.DiskBytes, s.DiskBytes) // they share the directory
	}
	return sum
}

func (b *blobCaches) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.caches {
		c.Close()
	}
}
