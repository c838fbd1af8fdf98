package cache

import "sync/atomic"

// counters are what Stats is made from.
type counters struct {
	memoryHits, diskHits, misses, fetchedBytes, corrupt, evictions, diskErrors atomic.Uint64
}

// Stats says what a Cache has done since it was made, and what it holds.
type Stats struct {
	// MemoryHits counts reads served from the memory tier.
	MemoryHits uint64
	// DiskHits counts reads served from the disk tier. Readers who waited for
	// one fetch together count as one.
	DiskHits uint64
	// Misses counts the calls of the next store's Get.
	Misses uint64
	// FetchedBytes counts the bytes that the next store's Get returned.
	FetchedBytes uint64
	// Corrupt counts files of the disk tier that did not hold the bytes of their
	// digest. They were removed and fetched again.
	Corrupt uint64
	// Evictions counts the files that this Cache removed from the disk tier to
	// make room.
	Evictions uint64
	// DiskErrors counts the times that the disk tier could not be read or filled.
	DiskErrors uint64
	// MemoryBytes is what the memory tier holds now, with its overhead.
	MemoryBytes int64
	// DiskBytes is what the disk tier holds now, of all that share it, in whole
	// blocks. After a blob was dropped or a process was killed it is too high
	// until the files are next counted; it is never too low.
	DiskBytes int64
}

// Stats returns what the cache has done so far.
func (c *Cache) Stats() Stats {
	return Stats{
		MemoryHits:   c.counters.memoryHits.Load(),
		DiskHits:     c.counters.diskHits.Load(),
		Misses:       c.counters.misses.Load(),
		FetchedBytes: c.counters.fetchedBytes.Load(),
		Corrupt:      c.counters.corrupt.Load(),
		Evictions:    c.counters.evictions.Load(),
		DiskErrors:   c.counters.diskErrors.Load(),
		MemoryBytes:  c.memory.used(),
		DiskBytes:    c.disk.used(),
	}
}
