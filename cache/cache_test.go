package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/cas/dircas"
	"mneme/cas/memcas"
)

func newCache(t *testing.T, next cas.Store, opts *Options) *Cache {
	t.Helper()
	c, err := New(next, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// counting counts the Gets of the store it wraps and can hold them up.
type counting struct {
	*memcas.Store
	gets atomic.Int64
	hold func(ctx context.Context, d cas.Digest) error // when not nil, called by each Get
}

func (s *counting) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	s.gets.Add(1)
	if s.hold != nil {
		if err := s.hold(ctx, d); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, d)
}

// batching reads several blobs together.
type batching struct{ *memcas.Store }

func (s batching) BatchSize() int { return 8 }

func (s batching) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	all := make([][]byte, len(ds))
	for i, d := range ds {
		all[i], _ = s.Get(ctx, d)
	}
	return all
}

// TestBatchPassesThrough: blobs that are read ahead, many at a time, do not take the room
// of requested ones.
func TestBatchPassesThrough(t *testing.T) {
	next := batching{memcas.New()}
	c := newCache(t, next, &Options{})
	asked, ahead := put(t, next, []byte("asked for")), put(t, next, []byte("read ahead"))
	wantData(t, c, asked, []byte("asked for"))
	before := c.Stats().MemoryBytes
	if got := c.GetBatch(t.Context(), []cas.Digest{asked, ahead}); string(got[0]) != "asked for" || string(got[1]) != "read ahead" {
		t.Errorf("read together: %q", got)
	}
	if after := c.Stats().MemoryBytes; after != before {
		t.Errorf("the memory tier grew from %d to %d bytes", before, after)
	}
}

func put(t *testing.T, s cas.Store, data []byte) cas.Digest {
	t.Helper()
	d, err := s.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantData(t *testing.T, s cas.Store, d cas.Digest, want []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("Get of %v returned %d wrong bytes", d, len(got))
	}
}

// sized returns a blob of n bytes that differs for each i.
func sized(i, n int) []byte {
	return append(fmt.Appendf(nil, "%08d", i), make([]byte, n-8)...)
}

func TestConformance(t *testing.T) {
	tiers := map[string]func(t *testing.T) *Options{
		"memory": func(*testing.T) *Options { return nil },
		"disk":   func(t *testing.T) *Options { return &Options{MemoryBytes: -1, Dir: t.TempDir()} },
		"both":   func(t *testing.T) *Options { return &Options{Dir: t.TempDir()} },
		"tiny":   func(t *testing.T) *Options { return &Options{MemoryBytes: 400, Dir: t.TempDir(), DiskBytes: 2 * block} },
		"none":   func(*testing.T) *Options { return &Options{MemoryBytes: -1} },
		"near":   func(*testing.T) *Options { return &Options{Near: true} },
	}
	for name, options := range tiers {
		t.Run(name+" over memcas", func(t *testing.T) {
			castest.Run(t, castest.Config{
				Open:   func(t *testing.T) cas.Store { return newCache(t, memcas.New(), options(t)) },
				Reopen: func(t *testing.T, s cas.Store) cas.Store { return newCache(t, s.(*Cache).next, options(t)) },
				Corrupt: func(_ *testing.T, s cas.Store, d cas.Digest, data []byte) {
					s.(*Cache).next.(*memcas.Store).Corrupt(d, data)
					s.(*Cache).drop(d)
				},
			})
		})
	}
	for _, name := range []string{"memory", "none", "both"} {
		t.Run(name+" over what reads together", func(t *testing.T) {
			castest.Run(t, castest.Config{
				Open: func(t *testing.T) cas.Store { return newCache(t, batching{memcas.New()}, tiers[name](t)) },
				Corrupt: func(_ *testing.T, s cas.Store, d cas.Digest, data []byte) {
					s.(*Cache).next.(batching).Corrupt(d, data)
					s.(*Cache).drop(d)
				},
			})
		})
	}
	for _, name := range []string{"both", "tiny"} {
		t.Run(name+" over dircas", func(t *testing.T) { testOverDircas(t, tiers[name]) })
	}
}

func testOverDircas(t *testing.T, options func(*testing.T) *Options) {
	dirs := make(map[cas.Store]string)
	openIn := func(t *testing.T, dir string) cas.Store {
		next, err := dircas.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := newCache(t, next, options(t))
		dirs[c] = dir
		return c
	}
	castest.Run(t, castest.Config{
		Open:   func(t *testing.T) cas.Store { return openIn(t, t.TempDir()) },
		Reopen: func(t *testing.T, s cas.Store) cas.Store { return openIn(t, dirs[s]) },
		Corrupt: func(t *testing.T, s cas.Store, d cas.Digest, data []byte) {
			name := filepath.Join(dirs[s], d.String()[:2], d.String())
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
			s.(*Cache).drop(d)
		},
	})
}

func TestTiersInOrder(t *testing.T) {
	next := &counting{Store: memcas.New()}
	data := sized(0, 100)
	d := put(t, next, data)
	dir := t.TempDir()
	c := newCache(t, next, &Options{Dir: dir})
	wantStats := func(name string, got, want Stats) {
		t.Helper()
		got.MemoryBytes = 0
		if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	wantData(t, c, d, data)
	wantStats("first", c.Stats(), Stats{Misses: 1, FetchedBytes: 100, DiskBytes: block})
	wantData(t, c, d, data)
	wantStats("second", c.Stats(), Stats{Misses: 1, FetchedBytes: 100, DiskBytes: block, MemoryHits: 1})
	other := newCache(t, next, &Options{Dir: dir})
	wantData(t, other, d, data)
	wantData(t, other, d, data)
	wantStats("other process", other.Stats(), Stats{DiskHits: 1, MemoryHits: 1, DiskBytes: block})
	if n := next.gets.Load(); n != 1 {
		t.Errorf("%d Gets of the next store, want 1", n)
	}
}

func TestPutFillsMemory(t *testing.T) {
	next := &counting{Store: memcas.New()}
	c := newCache(t, next, nil)
	data := []byte("data")
	d := put(t, c, data)
	wantData(t, c, d, data)
	// A reader can miss the memory tier just before the fetch of another ends.
	if _, err := c.fetchOnce(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if n := next.gets.Load(); n != 0 {
		t.Errorf("%d Gets of the next store, want 0", n)
	}
	wantData(t, next, d, data)
}

type failing struct {
	cas.Store
	err error
}

func (s failing) Put(context.Context, []byte) (cas.Digest, error) { return cas.Digest{}, s.err }

func TestFailedPutIsNotCached(t *testing.T) {
	want := errors.New("no")
	c := newCache(t, failing{memcas.New(), want}, &Options{Dir: t.TempDir()})
	if _, err := c.Put(t.Context(), []byte("data")); !errors.Is(err, want) {
		t.Errorf("Put: error %v, want %v", err, want)
	}
	if _, err := c.Get(t.Context(), cas.Sum([]byte("data"))); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("Get: error %v, want ErrNotFound", err)
	}
}

// TestHasAsksNext: a tier that answered could make a writer believe that a blob
// is stored which only another store has.
func TestHasAsksNext(t *testing.T) {
	next := memcas.New()
	c := newCache(t, next, &Options{Dir: t.TempDir()})
	d := put(t, c, []byte("data"))
	wantData(t, c, d, []byte("data"))
	if err := next.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if has, err := c.Has(t.Context(), d); has || err != nil {
		t.Errorf("Has: %v, %v, want false", has, err)
	}
}

func TestUnsupported(t *testing.T) {
	c := newCache(t, failing{memcas.New(), nil}, nil)
	if err := c.Delete(t.Context(), cas.Digest{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Delete: %v", err)
	}
	for _, err := range c.List(t.Context()) {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("List: %v", err)
		}
	}
}

func TestMemoryBound(t *testing.T) {
	const limit = 64 << 10
	next := &counting{Store: memcas.New()}
	c := newCache(t, next, &Options{MemoryBytes: limit})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				data := sized(100*g+i, 1000)
				d, err := c.Put(t.Context(), data)
				if err != nil {
					t.Error(err)
				}
				if got, err := c.Get(t.Context(), d); err != nil || !bytes.Equal(got, data) {
					t.Errorf("Get: %v", err)
				}
				if used := c.Stats().MemoryBytes; used > limit {
					t.Errorf("%d bytes in memory, limit %d", used, limit)
				}
			}
		})
	}
	wg.Wait()
	held, n := 0, 0
	c.memory.cache.IterValues(func(e *entry) bool {
		held, n = held+cap(e.data)+entryOverhead, n+1
		return false
	})
	if held > limit || n < 20 {
		t.Errorf("memory holds %d bytes in %d entries, limit %d", held, n, limit)
	}
	big := sized(-1, limit+1)
	wantData(t, c, put(t, c, big), big)
	if used := c.Stats().MemoryBytes; used > limit {
		t.Errorf("%d bytes in memory after a blob above the limit", used)
	}
	for i := range 800 {
		wantData(t, c, cas.Sum(sized(i, 1000)), sized(i, 1000))
	}
}

// TestDeleteDuringFetch: a blob that is deleted while it is fetched is not left
// in the tiers.
func TestDeleteDuringFetch(t *testing.T) {
	next := &counting{Store: memcas.New()}
	c := newCache(t, next, &Options{Dir: t.TempDir()})
	d := put(t, next, []byte("data"))
	data, err := next.Store.Get(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	// late is a next store whose Get has read the blob before it is deleted and
	// returns it after.
	c.next = late{next, func() ([]byte, error) { return data, c.Delete(t.Context(), d) }}
	if got, err := c.Get(t.Context(), d); err != nil || string(got) != "data" {
		t.Fatalf("Get: %q, %v", got, err)
	}
	c.next = next
	if _, err := c.Get(t.Context(), d); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("Get of what was deleted: error %v, want ErrNotFound", err)
	}
}

type late struct {
	*counting
	get func() ([]byte, error)
}

func (s late) Get(context.Context, cas.Digest) ([]byte, error) { return s.get() }

func TestClosed(t *testing.T) {
	c := newCache(t, memcas.New(), &Options{Dir: t.TempDir()})
	d := put(t, c, []byte("data"))
	c.Close()
	c.Close()
	if _, err := c.Get(t.Context(), d); !errors.Is(err, ErrClosed) || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Get: error %v, want ErrClosed", err)
	}
	if _, err := c.Put(t.Context(), []byte("data")); !errors.Is(err, ErrClosed) {
		t.Errorf("Put: error %v, want ErrClosed", err)
	}
	if err := c.Delete(t.Context(), d); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if s := c.Stats(); s.MemoryBytes != 0 {
		t.Errorf("%d bytes in memory after Close", s.MemoryBytes)
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(memcas.New(), &Options{Dir: "x", DiskBytes: -1}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("negative DiskBytes: error %v", err)
	}
}
