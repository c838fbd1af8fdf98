// Package castest is the conformance suite of cas.Store: every backend and
// every decorator passes it.
package castest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"mneme/cas"
)

// Config says how the suite gets at the stores it tests.
type Config struct {
	// Open returns an empty store. It registers with t.Cleanup what has to be
	// closed. Required.
	Open func(t *testing.T) cas.Store
	// Reopen returns a second store on the backend of s, as another process
	// would open it. It is nil only for a backend that keeps nothing outside
	// the process, and then persistence is not tested.
	Reopen func(t *testing.T, s cas.Store) cas.Store
	// Corrupt makes data the stored bytes of d behind the back of s, such that
	// the next Get of s meets them. d is stored. It is nil only where a test
	// cannot get at the stored bytes, and then damage is not tested.
	Corrupt func(t *testing.T, s cas.Store, d cas.Digest, data []byte)
}

// Run tests the store that c opens against the contract of cas.Store, and of
// cas.Lister, cas.Deleter and cas.BatchGetter where the store implements them.
func Run(t *testing.T, c Config) {
	test := func(name string, f func(t *testing.T, s cas.Store)) {
		t.Run(name, func(t *testing.T) { f(t, c.Open(t)) })
	}
	test("RoundTrip", testRoundTrip)
	test("NotFound", testNotFound)
	test("PutAgain", testPutAgain)
	test("PutKeepsNoSlice", testPutKeepsNoSlice)
	test("Cancelled", testCancelled)
	test("ManyDigests", testManyDigests)
	test("OneDigest", testOneDigest)
	if c.Corrupt != nil {
		test("Damage", c.testDamage)
		test("Repair", c.testRepair)
	}
	if c.Reopen != nil {
		test("Reopen", c.testReopen)
	}
	probe := c.Open(t)
	if _, ok := probe.(cas.Lister); ok {
		test("List", testList)
	}
	if _, ok := probe.(cas.Deleter); ok {
		test("Delete", testDelete)
		test("DeleteWhilePutting", testDeleteWhilePutting)
	}
	if _, ok := probe.(cas.BatchGetter); ok {
		test("Batch", c.testBatch)
	}
	if c.Corrupt != nil && c.Reopen != nil {
		test("DamageSeenByOthers", c.testDamageSeenByOthers)
	}
}

// samples returns blobs of the sizes and kinds that backends treat alike.
func samples() map[string][]byte {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	return map[string][]byte{
		"empty":    {},
		"one byte": {'x'},
		"zero":     {0},
		"text":     []byte("line\r\nline\n"),
		"binary":   binary,
		"1 MiB":    bytes.Repeat(binary, 1<<12),
	}
}

// blob returns the nth of many small blobs that differ.
func blob(n int) []byte { return fmt.Appendf(nil, "blob %d", n) }

func put(t *testing.T, s cas.Store, data []byte) cas.Digest {
	t.Helper()
	d, err := s.Put(t.Context(), data)
	if err != nil {
		t.Fatalf("Put of %d bytes: %v", len(data), err)
	}
	if want := cas.Sum(data); d != want {
		t.Fatalf("Put of %d bytes returned %v, want %v", len(data), d, want)
	}
	return d
}

func wantData(t *testing.T, s cas.Store, d cas.Digest, want []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), d)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("Get of %v returned %d bytes, not the %d that were put", d, len(got), len(want))
	}
}

func wantGetError(t *testing.T, s cas.Store, d cas.Digest, want error) {
	t.Helper()
	got, err := s.Get(t.Context(), d)
	if !errors.Is(err, want) {
		t.Errorf("Get: error %v, want %v", err, want)
	}
	if got != nil {
		t.Errorf("Get returned %d bytes together with an error", len(got))
	}
}

func wantHas(t *testing.T, s cas.Store, d cas.Digest, want bool) {
	t.Helper()
	got, err := s.Has(t.Context(), d)
	if err != nil {
		t.Fatalf("Has: %v", err)
	}
	if got != want {
		t.Errorf("Has of %v is %v, want %v", d, got, want)
	}
}

func (c Config) testBatch(t *testing.T, s cas.Store) {
	b := s.(cas.BatchGetter)
	want := map[cas.Digest][]byte{put(t, s, []byte{}): {}}
	for n := range 3*max(1, b.BatchSize()) + 1 {
		want[put(t, s, blob(n))] = blob(n)
	}
	ds := slices.Collect(maps.Keys(want))
	ds = append(ds, ds[0], cas.Sum([]byte("absent")), ds[len(ds)/2])
	damaged := ds[1]
	if c.Corrupt != nil {
		c.Corrupt(t, s, damaged, []byte("other bytes"))
	}
	check := func(ctx context.Context, ds []cas.Digest, all bool) {
		t.Helper()
		got := b.GetBatch(ctx, ds)
		if len(got) != len(ds) {
			t.Fatalf("GetBatch of %d returned %d", len(ds), len(got))
		}
		for i, d := range ds {
			data, there := want[d]
			if d == damaged && c.Corrupt != nil {
				there = false
			}
			if got[i] != nil && (!there || !bytes.Equal(got[i], data)) || got[i] == nil && there && all {
				t.Errorf("GetBatch returned %q for blob %d, which is %q, %v", got[i], i, data, there)
			}
		}
	}
	all := b.BatchSize() > 1
	check(t.Context(), ds, all)
	check(t.Context(), ds[:2], all)
	check(t.Context(), nil, all)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check(ctx, ds, false)
}
