package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"mneme/cas"
	"mneme/gateway/wire"
)

// Blobs are the blobs of a store on the server. Single reads by many callers are batched:
// while maxGets requests are under way, further reads wait for the next one.
type Blobs struct {
	client  *client
	storeID string
	life    context.Context // of the requests for many
	work    *sync.WaitGroup // of which they are

	mu      sync.Mutex // guards the fields below
	waiting map[cas.Digest]*get
	queue   []*get
	running int
}

var (
	_ cas.BatchGetter = (*Blobs)(nil)
	_ cas.Forgetter   = (*Blobs)(nil)
)

// maxGets is how many requests for the blobs of a store are under way at once.
const maxGets = 4

// get is a blob that callers wait for.
type get struct {
	digest cas.Digest
	done   chan struct{} // closed when the fields below are set
	data   []byte
	err    error
}

// Get is part of cas.Store.
func (b *Blobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g := b.join(d)
	select {
	case <-g.done:
		return g.data, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join has a blob fetched with the next request.
func (b *Blobs) join(d cas.Digest) *get {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.waiting[d]; g != nil {
		return g
	}
	g := &get{digest: d, done: make(chan struct{})}
	b.waiting[d] = g
	b.queue = append(b.queue, g)
	if b.running < maxGets {
		b.running++
		b.work.Go(b.run)
	}
	return g
}

// take returns the gets for the next request; nil ends the caller.
func (b *Blobs) take() []*get {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), wire.MaxBatch)
	if n == 0 {
		b.running--
		return nil
	}
	some := slices.Clone(b.queue[:n])
	clear(b.queue[:n]) // else the array would keep what they get
	b.queue = b.queue[n:]
	for _, g := range some {
		delete(b.waiting, g.digest)
	}
	return some
}

func (b *Blobs) run() {
	for some := b.take(); some != nil; some = b.take() {
		b.fetch(b.life, some)
		for _, g := range some {
			close(g.done)
		}
	}
}

// Forget is part of cas.Forgetter: the connections are made again, since their buffers have answers, and
// so are the codecs.
func (b *Blobs) Forget() error {
	b.client.renew()
	wire.Forget()
	return nil
}

// BatchSize is part of cas.BatchGetter.
func (b *Blobs) BatchSize() int { return wire.MaxBatch }

// GetBatch is part of cas.BatchGetter.
func (b *Blobs) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	all := make([][]byte, len(ds))
	gets := make([]*get, len(ds))
	for i, d := range ds {
		gets[i] = &get{digest: d}
	}
	for from := 0; from < len(ds) && ctx.Err() == nil; from += wire.MaxBatch {
		b.fetch(ctx, gets[from:min(from+wire.MaxBatch, len(ds))])
	}
	for i, g := range gets {
		all[i] = g.data
	}
	return all
}

// fetch gets blobs, or the errors why they cannot be read, with as few requests as the server
// wants.
func (b *Blobs) fetch(ctx context.Context, gets []*get) {
	for len(gets) > 0 {
		var later []*get
		left := gets
		body, err := b.askFor(left)
		r := &request{op: wire.OpGetBlobs, body: body, lasts: true}
		if err == nil {
			err = b.client.do(ctx, r, func(answer *http.Response) error {
				return readBlobs(answer, r, &left, &later)
			}, func() { r.body, _ = b.askFor(left) })
		}
		if err != nil {
			for _, g := range append(left, later...) {
				g.err = fmt.Errorf("get %v: %w", g.digest, err)
			}
			return
		}
		if len(later) == len(gets) { // for ever
			err = fmt.Errorf("%w: an answer has none of the blobs", ErrProtocol)
			for _, g := range later {
				g.err = fmt.Errorf("get %v: %w", g.digest, err)
			}
			return
		}
		gets = later
	}
}

func (b *Blobs) askFor(gets []*get) ([]byte, error) {
	ask := wire.Ask{Store: b.storeID}
	for _, g := range gets {
		ask.Blobs = append(ask.Blobs, g.digest)
	}
	return json.Marshal(&ask)
}

// readBlobs reads an answer. If the answer breaks off, left has the gets that have not
// come.
func readBlobs(answer *http.Response, r *request, left, later *[]*get) error {
	if !wire.IsStream(answer.Header) {
		return fmt.Errorf("%w: the answer is no stream", ErrProtocol)
	}
	items := wire.NewItemReader(wire.NewStreamReader(answer.Body))
	for len(*left) > 0 {
		g := (*left)[0]
		kind, err := items.Byte()
		if err != nil {
			return wire.Inside(err)
		}
		var data []byte
		if kind != wire.BlobLater {
			if data, err = items.Bytes(wire.MaxBlob); err != nil {
				return err
			}
		}
		switch kind {
		case wire.BlobFound:
			if cas.Sum(data) == g.digest {
				g.data = data
			} else {
				g.err = fmt.Errorf("get %v: %w", g.digest, cas.ErrCorrupt)
			}
		case wire.BlobFailed:
			g.err = fmt.Errorf("get %v: %w", g.digest, wire.DecodeError(data))
		case wire.BlobLater:
			*later = append(*later, g)
		default:
			return &wire.CutError{Err: fmt.Errorf("a blob of the unknown kind %q", kind)}
		}
		*left = (*left)[1:]
		r.came()
	}
	return items.End()
}

// Put is part of cas.Store.
func (b *Blobs) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	d := cas.Sum(data)
	r := &request{op: wire.OpPutBlob, body: data, header: http.Header{}}
	r.header.Set(wire.DigestHeader, d.String())
	r.header.Set(wire.StoreHeader, b.storeID)
	if _, err := b.client.answer(ctx, r, nil); err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, err)
	}
	return d, nil
}

// Has is part of cas.Store.
func (b *Blobs) Has(ctx context.Context, d cas.Digest) (bool, error) {
	answer, err := b.client.ask(ctx, wire.OpHasBlobs, &wire.Ask{Store: b.storeID, Blobs: []cas.Digest{d}})
	if err != nil {
		return false, fmt.Errorf("has %v: %w", d, err)
	}
	if len(answer.Has) != 1 {
		return false, ErrProtocol
	}
	return answer.Has[0], nil
}
