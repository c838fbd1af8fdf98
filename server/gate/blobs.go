package gate

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
)

// readAhead is how many blobs of one request are read at once, and firstRead how many of them before
// it is known how large they are.
const (
	readAhead = 16
	firstRead = 4
)

// getBlobs answers with the blobs that are asked for, in their order.
func getBlobs(c *call) error {
	asked, err := c.ask()
	if err != nil {
		return err
	}
	blobs, err := c.view.blobs(c.Context(), asked.Store, access.Read)
	if err != nil {
		return err
	}
	w := c.stream()
	sent, largest := 0, 0
	left, n := asked.Blobs, firstRead
	for len(left) > 0 && sent < wire.MaxBlobs {
		n = min(n, len(left))
		for _, got := range readSome(c.Context(), blobs, left[:n]) {
			if err := c.writeBlob(w, got, &sent); err != nil {
				return c.end(w, err)
			}
			largest = max(largest, len(got.data))
		}
		left = left[n:]
		n = min(readAhead, max(1, (wire.MaxBlobs-sent)/max(1, largest)))
	}
	for range left { // which are not read for this answer
		if err := w.Byte(wire.BlobLater); err != nil {
			return c.end(w, err)
		}
	}
	return c.end(w, nil)
}

// blobGot is a blob, or why it could not be read.
type blobGot struct {
	data []byte
	err  error
}

// readSome reads blobs together where that is quicker.
func readSome(ctx context.Context, blobs cas.Store, ds []cas.Digest) []blobGot {
	all := make([]blobGot, len(ds))
	if len(ds) > 1 {
		for i, data := range cas.GetBatch(ctx, blobs, ds) {
			all[i].data = data
		}
	}
	var group errgroup.Group
	group.SetLimit(readAhead)
	for i, d := range ds {
		if all[i].data == nil {
			group.Go(func() error {
				all[i].data, all[i].err = blobs.Get(ctx, d)
				return nil
			})
		}
	}
	_ = group.Wait() // errors stand with their blobs
	return all
}

// writeBlob writes a blob. One that does not fit any more ends what is sent.
func (c *call) writeBlob(w *wire.ItemWriter, got blobGot, sent *int) error {
	switch {
	case got.err != nil:
		e, _ := c.errorOf(c.cause(got.err))
		if err := w.Byte(wire.BlobFailed); err != nil {
			return err
		}
		return w.Bytes(e.Encode())
	case *sent > 0 && *sent+len(got.data) > wire.MaxBlobs:
		*sent = wire.MaxBlobs
		return w.Byte(wire.BlobLater)
	}
	*sent += len(got.data)
	if err := w.Byte(wire.BlobFound); err != nil {
		return err
	}
	return w.Bytes(got.data)
}

var errDigest = errkind.New(errkind.Invalid, "the bytes do not have the digest that the request says")

// putBlob stores the body.
func putBlob(c *call) error {
	want, err := cas.ParseDigest(c.Header.Get(wire.DigestHeader))
	if err != nil {
		return fmt.Errorf("%w: %w", errDigest, err)
	}
	storeID := c.Header.Get(wire.StoreHeader)
	into, err := c.view.blobs(c.Context(), storeID, access.Write)
	if err != nil {
		return err
	}
	if bounded, ok := into.(interface {
		MayPut(ctx context.Context, n int64) error
	}); ok {
		if err := bounded.MayPut(c.Context(), c.ContentLength); err != nil {
			return err
		}
	}
	data, done, err := c.body(wire.MaxBlob)
	if err != nil {
		return err
	}
	defer done()
	if cas.Sum(data) != want {
		return errDigest
	}
	if err := c.lookAgain(); err != nil {
		return err
	}
	blobs, err := c.view.blobs(c.Context(), storeID, access.Write)
	if err != nil {
		return err
	}
	if _, err := blobs.Put(c.Context(), data); err != nil {
		return err
	}
	return c.answer(&wire.Answer{})
}
