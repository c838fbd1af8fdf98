package snapshot

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"

	"mneme/cas"
	"mneme/versionlog"
)

// paging says where one page ends and the next begins: after a line with which the page has least
// bytes and the hash of whose key begins with a zero byte, or with which it has most bytes. So a
// page depends on nothing but its own lines, and pages that have not changed are the same in the
// next snapshot.
type paging struct{ least, most int }

var defaultPaging = paging{64 << 10, 256 << 10}

func (p paging) ends(size int, key string) bool {
	return size >= p.most || size >= p.least && sha256.Sum256([]byte(key))[0] == 0
}

// writer puts pages of one list after another.
type writer struct {
	sink Sink
	paging

	list  list // what was put
	raw   []byte
	first string
	count int
	last  string // key of the last line
}

// add puts a line behind those before.
func (w *writer) add(ctx context.Context, l line) error {
	if len(l.text) >= maxLine {
		return fmt.Errorf("%q: %d bytes, at most %d fit: %w", l.at, len(l.text), maxLine, ErrTooLarge)
	}
	if l.at <= w.last {
		return fmt.Errorf("%q behind %q: %w", l.at, w.last, ErrOrder)
	}
	if w.count == 0 {
		w.first = l.at
	}
	w.raw = append(append(w.raw, l.text...), '\n')
	w.count++
	w.last = l.at
	if w.ends(len(w.raw), l.at) {
		return w.flush(ctx)
	}
	return nil
}

// flush ends the page.
func (w *writer) flush(ctx context.Context) error {
	if w.count == 0 {
		return ctx.Err()
	}
	data := encoder().EncodeAll(w.raw, nil)
	p := page{First: w.first, Count: w.count, SHA256: cas.Sum(data), Size: len(data), Raw: len(w.raw)}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.sink.Put(ctx, p.name(), data); err != nil {
		return fmt.Errorf("snapshot: page %s: %w", p.SHA256, err)
	}
	w.took(p)
	w.raw, w.count = w.raw[:0], 0
	return nil
}

// took adds a page that the sink has.
func (w *writer) took(p page) {
	w.list.Pages = append(w.list.Pages, p)
	w.list.Count += p.Count
	w.last = max(w.last, p.First)
}

// end ends the list and returns it.
func (w *writer) end(ctx context.Context) (list, error) {
	err := w.flush(ctx)
	l := w.list
	w.list, w.last = list{}, ""
	return l, err
}

// Write makes a snapshot of a store's heads as of a commit, in the order of their paths,
// and returns nil when sink has all of it. It knows nothing of the history before the
// commit. Errors: ErrOrder, ErrTooLarge, those of heads and of sink.
func Write(ctx context.Context, sink Sink, at Point, heads iter.Seq2[versionlog.Version, error]) error {
	return write(ctx, sink, at, heads, defaultPaging)
}

func write(ctx context.Context, sink Sink, at Point, heads iter.Seq2[versionlog.Version, error], paging paging) (err error) {
	w := &writer{sink: sink, paging: paging}
	for v, err := range heads {
		if err != nil {
			return err
		}
		text, err := encodeHead(&v)
		if err != nil {
			return err
		}
		if err := w.add(ctx, line{v.Path, text}); err != nil {
			return err
		}
	}
	s := &Snapshot{Point: at, HistoryAfter: at.Tip.Seq, KeysAfter: at.Tip.Seq}
	if s.heads, err = w.end(ctx); err != nil {
		return err
	}
	return s.put(ctx, sink)
}
