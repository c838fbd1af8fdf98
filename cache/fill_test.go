package cache

import (
	"path/filepath"
	"sync"
	"testing"
)

// TestConcurrentFills checks that blobs which many readers fetch at once are all on disk
// when the cache has been closed, within its bound, and that no reader waits for another
// one's file.
func TestConcurrentFills(t *testing.T) {
	const n = 300
	dir := filepath.Join(t.TempDir(), "cache")
	c, next := diskOnly(t, dir, 2*n*block, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { get(t, c, i) })
	}
	all.Wait()
	wantGets(t, next, n)
	c.Close()
	checkLedger(t, dir, 2*n*block)
	again := newCache(t, next, &Options{MemoryBytes: -1, Dir: dir, DiskBytes: 2 * n * block})
	for i := range n {
		get(t, again, i)
	}
	wantGets(t, next, 0)

	small, _ := diskOnly(t, filepath.Join(dir, "small"), 20*block, n)
	for i := range n {
		all.Go(func() { get(t, small, i) })
	}
	all.Wait()
	small.Close()
	checkLedger(t, filepath.Join(dir, "small"), 20*block)
}
