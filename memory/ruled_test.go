package memory

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// weighed are blobs that tell how much memory is in use when the last is read.
type weighed struct {
	cas.Store
	left  int
	inUse uint64
}

func (w *weighed) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if w.left--; w.left == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		w.inUse = m.HeapAlloc
	}
	data, err := w.Store.Get(ctx, d)
	return bytes.Clone(data), err
}

// TestRuledContents: stored contents that a proposal names are judged one after the other, and not
// held together.
func TestRuledContents(t *testing.T) {
	const n = 16
	blobs := &weighed{Store: memcas.New(), left: n}
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	s, err := lib.CreateStore(t.Context(), "notes", &StoreOptions{MaxMemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p := &versionlog.Proposal{Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}}
	for i := range n {
		d, err := blobs.Put(t.Context(), bytes.Repeat([]byte{'a' + byte(i)}, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		p.Changes = append(p.Changes, versionlog.Change{Action: versionlog.Put, Path: fmt.Sprintf("/%d", i), Digest: d, Size: 1 << 20, Expect: versionlog.ExpectAny()})
	}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := lib.Ruled().Commit(t.Context(), s.ID, p); err != nil {
		t.Fatal(err)
	}
	if blobs.inUse > before.HeapAlloc+n/2<<20 {
		t.Errorf("%d MiB more are in use at the last of %d", (blobs.inUse-before.HeapAlloc)>>20, n)
	}
}
