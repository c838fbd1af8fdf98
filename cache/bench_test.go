package cache

import (
	"testing"

	"mneme/cas/memcas"
)

func BenchmarkMemoryHit(b *testing.B) {
	c, err := New(memcas.New(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	d, err := c.Put(b.Context(), sized(0, block))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Get(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiskHit(b *testing.B) {
	c, err := New(memcas.New(), &Options{MemoryBytes: -1, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	d, err := c.Put(b.Context(), sized(0, block))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Get(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFill reads blobs that no tier has.
func BenchmarkFill(b *testing.B) {
	next := memcas.New()
	c, err := New(next, &Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	i := 0
	for b.Loop() {
		d, err := next.Put(b.Context(), sized(i, block))
		if err != nil {
			b.Fatal(err)
		}
		i++
		if _, err := c.Get(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}
