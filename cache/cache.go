// Package cache puts a memory tier and a disk tier in front of a cas.Store. A
// blob never changes, so what is cached never goes stale.
package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync/atomic"

	"mneme/cas"
)

var (
	_ cas.Store   = (*Cache)(nil)
	_ cas.Lister  = (*Cache)(nil)
	_ cas.Deleter = (*Cache)(nil)

	_ cas.BatchGetter = (*Cache)(nil)
)

const (
	defaultMemoryBytes = 4 << 20
	defaultDiskBytes   = 1 << 30
)

// ErrClosed says that a Cache was used after Close.
var ErrClosed = fmt.Errorf("cache: %w", fs.ErrClosed)

// Options are the optional settings of a Cache. Nil and zero fields stand for
// the defaults.
type Options struct {
	// MemoryBytes bounds the memory tier. Default: 4 MiB. Negative: no memory
	// tier.
	MemoryBytes int64
	// Dir is the directory of the disk tier, made when it is first needed. Any
	// number of caches of any number of stores and processes may share one.
	// Default: no disk tier.
	Dir string
	// DiskBytes bounds the blobs in Dir, each counted in whole blocks of 4 KiB,
	// the one being written included. Of caches that share Dir each enforces its
	// own bound on all that is there. Default: 1 GiB.
	DiskBytes int64
	// Near says that the next store is on this machine, where a read takes no longer than
	// waiting for another caller's: every Get that misses reads separately.
	Near bool
}

// Cache is a cas.Store that remembers what it read from the next one. Reads go
// to the memory tier, the disk tier and the next store, in that order. Unless the next
// store is near, one fetch per digest is under way at a time, and everyone who waits
// for it shares its outcome. Put, Has, List and Delete ask the next store. A disk tier
// that is damaged, full, read-only or removed costs speed and never an answer.
//
// Cached blobs are served also when the next store has lost them: a check of a store must
// read the store itself.
type Cache struct {
	next     cas.Store
	near     bool
	memory   *memory // nil: no memory tier
	disk     *disk   // nil: no disk tier
	flights  flights
	counters counters

	// deletes counts the calls of Delete. A fetch that saw it change does not
	// leave its blob in the tiers.
	deletes atomic.Uint64
}

// New returns a cache in front of next. It fails only when the options make no
// sense: a directory that cannot be used is no reason to refuse reads.
func New(next cas.Store, opts *Options) (*Cache, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemoryBytes
	}
	if o.DiskBytes == 0 {
		o.DiskBytes = defaultDiskBytes
	}
	if o.DiskBytes < 0 {
		return nil, fmt.Errorf("cache: %d bytes of disk: %w", o.DiskBytes, fs.ErrInvalid)
	}
	c := &Cache{next: next, near: o.Near}
	var err error
	if o.MemoryBytes > 0 {
		if c.memory, err = newMemory(o.MemoryBytes); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	if o.Dir != "" {
		if c.disk, err = newDisk(o.Dir, o.DiskBytes, &c.counters); err != nil {
			c.memory.close()
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	return c, nil
}

// Close cancels the fetches under way, except those of a near store, waits for all of
// them and gives the memory back. The disk tier stays for the next time. Close does not
// close the next store. Reads and writes after Close return ErrClosed.
func (c *Cache) Close() {
	c.flights.close()
	c.disk.close()
	c.memory.close()
}

// Get implements cas.Store. A caller whose context ends leaves; the fetch goes on
// for the others who wait for it and is cancelled when the last one has left.
func (c *Cache) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get %v: %w", d, err)
	}
	if data, ok := c.fromMemory(d); ok {
		return data, nil
	}
	if c.near {
		if !c.flights.enter() {
			return nil, fmt.Errorf("get %v: %w", d, ErrClosed)
		}
		defer c.flights.wg.Done()
		return c.fetch(ctx, d)
	}
	return c.flights.do(ctx, d, func(ctx context.Context) ([]byte, error) { return c.fetchOnce(ctx, d) })
}

func (c *Cache) fromMemory(d cas.Digest) ([]byte, bool) {
	data, ok := c.memory.get(d)
	if ok {
		c.counters.memoryHits.Add(1)
	}
	return data, ok
}

// fetchOnce looks in memory once more before it fetches: the fetch before may have ended after
// its caller had looked.
func (c *Cache) fetchOnce(ctx context.Context, d cas.Digest) ([]byte, error) {
	if data, ok := c.fromMemory(d); ok {
		return data, nil
	}
	return c.fetch(ctx, d)
}

// fetch reads d from the disk tier or the next store and fills the tiers above.
func (c *Cache) fetch(ctx context.Context, d cas.Digest) ([]byte, error) {
	deletes := c.deletes.Load()
	data, ok := c.disk.get(d)
	if !ok {
		c.counters.misses.Add(1)
		var err error
		if data, err = c.next.Get(ctx, d); err != nil {
			return nil, err
		}
		c.counters.fetchedBytes.Add(uint64(len(data)))
		c.disk.put(d, data)
	}
	c.memory.put(d, data)
	c.dropIfDeleted(d, deletes)
	return data, nil
}

// BatchSize implements cas.BatchGetter: it is that of the next store, and 1 when
// there is a disk tier, from which blobs are read one by one.
func (c *Cache) BatchSize() int {
	if c.disk != nil {
		return 1
	}
	return cas.BatchSize(c.next)
}

// GetBatch implements cas.BatchGetter. It reads from memory and, in a batch, from the next
// store; not from the disk tier. Neither tier keeps the blobs that it reads: a caller that
// reads ahead passes them on. A Get of one of the blobs at the same time does not wait for
// it.
func (c *Cache) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	all := make([][]byte, len(ds))
	if !c.flights.enter() {
		return all
	}
	defer c.flights.wg.Done()
	var missing []cas.Digest
	var places []int
	for i, d := range ds {
		var ok bool
		if all[i], ok = c.fromMemory(d); !ok {
			missing, places = append(missing, d), append(places, i)
		}
	}
	for k, data := range cas.GetBatch(ctx, c.next, missing) {
		if data != nil {
			all[places[k]] = data
			c.counters.misses.Add(1)
			c.counters.fetchedBytes.Add(uint64(len(data)))
		}
	}
	return all
}

// Put implements cas.Store. It writes to the next store first, and to the memory
// tier when that has succeeded.
func (c *Cache) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	if c.flights.isClosed() {
		return cas.Digest{}, fmt.Errorf("put: %w", ErrClosed)
	}
	deletes := c.deletes.Load()
	d, err := c.next.Put(ctx, data)
	if err != nil {
		return cas.Digest{}, err
	}
	if c.memory != nil {
		c.memory.put(d, bytes.Clone(data))
	}
	c.dropIfDeleted(d, deletes)
	return d, nil
}

// dropIfDeleted undoes filling the tiers with d when a Delete was called since
// deletes was read: it may have dropped d before it was filled in.
func (c *Cache) dropIfDeleted(d cas.Digest, deletes uint64) {
	if c.deletes.Load() != deletes {
		c.drop(d)
	}
}

func (c *Cache) drop(d cas.Digest) {
	c.memory.drop(d)
	c.disk.drop(d)
}

// Has implements cas.Store. It always asks the next store: a tier may hold what
// that one has given up, or what belongs to another store.
func (c *Cache) Has(ctx context.Context, d cas.Digest) (bool, error) {
	return c.next.Has(ctx, d)
}

// List implements cas.Lister when the next store does. Otherwise it yields
// errors.ErrUnsupported.
func (c *Cache) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	if next, ok := c.next.(cas.Lister); ok {
		return next.List(ctx)
	}
	return func(yield func(cas.Digest, error) bool) {
		yield(cas.Digest{}, fmt.Errorf("list: %w", errors.ErrUnsupported))
	}
}

// Delete implements cas.Deleter when the next store does. Otherwise it returns
// errors.ErrUnsupported. It drops the blob from both tiers too, also when the
// next store fails; another process keeps it in its memory tier until it closes.
func (c *Cache) Delete(ctx context.Context, d cas.Digest) error {
	next, ok := c.next.(cas.Deleter)
	if !ok {
		return fmt.Errorf("delete %v: %w", d, errors.ErrUnsupported)
	}
	err := next.Delete(ctx, d)
	c.deletes.Add(1)
	c.drop(d)
	return err
}
