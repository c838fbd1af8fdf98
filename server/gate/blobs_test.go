package gate

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/server/access"
	"mneme/versionlog/memlog"
)

// counting counts what is read.
type counting struct {
	cas.Store
	bytes *atomic.Int64
}

func (c counting) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := c.Store.Get(ctx, d)
	c.bytes.Add(int64(len(data)))
	return data, err
}

// TestBlobsLater: what does not fit into an answer is not read for it.
func TestBlobsLater(t *testing.T) {
	var read atomic.Int64
	blobs := counting{memcas.New(), &read}
	v := &view{memlog.New(nil), func(context.Context, string, access.Right) (cas.Store, error) { return blobs, nil }, "", nil}
	l := newServer(t, func(*http.Request) (*view, error) { return v, nil }).dial(t, nil)
	var ds []cas.Digest
	for i := range 40 {
		d, err := blobs.Put(t.Context(), bytes.Repeat([]byte{byte(i)}, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
	for i, data := range l.Blobs("x").GetBatch(t.Context(), ds) {
		if len(data) != 1<<20 {
			t.Errorf("blob %d has %d bytes", i, len(data))
		}
	}
	if read.Load() != 40<<20 {
		t.Errorf("%d MiB were read for 40", read.Load()>>20)
	}
}
