package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// MaxContent is the size in bytes up to which a Log keeps contents itself. Up to
// this a row is written in less than half the time that the two syncs of a file
// and its directory add; from half a mebibyte on, a file is as fast.
const MaxContent = 128 << 10

// Blobs are the contents of one store that the log keeps. The zero value is
// not ready for use; see Log.Blobs.
type Blobs struct {
	log     *Log
	storeID string
	num     atomic.Int64 // of the store in the database, 0 until it is known; it never changes
}

var (
	_ cas.Store   = (*Blobs)(nil)
	_ cas.Lister  = (*Blobs)(nil)
	_ cas.Deleter = (*Blobs)(nil)

	_ cas.BatchGetter = (*Blobs)(nil)
	_ cas.Forgetter   = (*Blobs)(nil)
)

// Blobs returns the contents of a store that the log keeps. They are usable as
// long as the log is open. A store that does not exist has none, and a Put into
// it fails with versionlog.ErrNotFound; in a read-only log, Put and Delete fail
// with versionlog.ErrReadOnly.
func (l *Log) Blobs(storeID string) *Blobs { return &Blobs{log: l, storeID: storeID} }

// Put implements cas.Store. It is a transaction of its own, with one sync; a
// commit that carries its contents needs no Put.
func (b *Blobs) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	d := cas.Sum(data)
	if data == nil {
		data = []byte{}
	}
	err := b.write(ctx, func(w *writer, num int64) error { return w.keep(num, d, data) })
	if err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, err)
	}
	return d, nil
}

// Delete implements cas.Deleter.
func (b *Blobs) Delete(ctx context.Context, d cas.Digest) error {
	err := b.write(ctx, func(w *writer, num int64) error { return b.remove(ctx, w, num, d) })
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
		return fmt.Errorf("delete %v: %w", d, err)
	}
	return nil
}

// Forget implements cas.Forgetter: the connections of the whole log are opened again, since their
// memory has pages of the database.
func (b *Blobs) Forget() error { return b.log.renew() }

func (b *Blobs) write(ctx context.Context, do func(w *writer, num int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := b.log.writer
	if w == nil {
		return versionlog.ErrReadOnly
	}
	return w.transaction(ctx, func(ctx context.Context) error {
		s, err := queryOne(ctx, w, storeByID, scanStore, b.storeID)
		if err != nil {
			return err
		}
		return do(w, s.num)
	})
}

// Get implements cas.Store.
func (b *Blobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := b.read(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("get %v: %w", d, err)
	}
	return data, nil
}

func (b *Blobs) read(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := b.one(ctx, blobData, d)
	damaged := err == nil && cas.Sum(data) != d
	if errors.Is(err, versionlog.ErrNotFound) || damaged {
		data, err = b.unpack(ctx, d)
	}
	switch {
	case damaged && errors.Is(err, cas.ErrNotFound):
		return nil, cas.ErrCorrupt
	case errors.Is(err, versionlog.ErrNotFound): // the store
		return nil, cas.ErrNotFound
	case errors.Is(err, versionlog.ErrCorrupt): // pages of the database
		return nil, fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	return data, err
}

// batchSize is how many blobs one transaction reads. Its locks cost as much as a
// blob of 4 KiB.
const batchSize = 32

// BatchSize implements cas.BatchGetter.
func (b *Blobs) BatchSize() int { return batchSize }

// GetBatch implements cas.BatchGetter.
func (b *Blobs) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	all := make([][]byte, len(ds))
	num, ok, err := b.ready(ctx, blobsFormat)
	if err != nil || !ok {
		return all
	}
	for at := 0; at < len(ds); at += batchSize {
		end := min(at+batchSize, len(ds))
		err := retryBusy(ctx, func() error {
			return translate(b.log.reading(ctx, func(from source) error { return b.readBatch(ctx, from, num, ds[at:end], all[at:end]) }))
		})
		if err != nil {
			break
		}
	}
	return all
}

// readBatch reads blobs in one transaction. It leaves nil for those that are missing or damaged.
func (b *Blobs) readBatch(ctx context.Context, from source, num int64, ds []cas.Digest, into [][]byte) error {
	files, err := b.log.filesOf(b.storeID)
	if err != nil {
		return err
	}
	packed := &contents{source: from, store: num, files: files, decoded: map[int64][]byte{}}
	for i, d := range ds {
		data, err := queryOne(ctx, from, blobData, scanBytes, num, d[:])
		if errors.Is(err, versionlog.ErrNotFound) && b.log.format.Load() >= packedFormat {
			data, err = packed.together(ctx, d)
		}
		switch {
		case err == nil && cas.Sum(data) == d:
			into[i] = data
		case err != nil && !isDamage(err) && !errors.Is(err, versionlog.ErrNotFound):
			return err
		}
	}
	return nil
}

// Has implements cas.Store.
func (b *Blobs) Has(ctx context.Context, d cas.Digest) (bool, error) {
	_, err := b.one(ctx, blobThere, d)
	if errors.Is(err, versionlog.ErrNotFound) {
		_, err = b.one(ctx, packedThere, d)
	}
	if errors.Is(err, versionlog.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("has %v: %w", d, err)
	}
	return true, nil
}

// List implements cas.Lister: first those that are whole, then those that are packed.
func (b *Blobs) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	return func(yield func(cas.Digest, error) bool) {
		for _, part := range []struct {
			format int
			text   string
		}{{blobsFormat, blobsAfter(pageRows)}, {packedFormat, packedAfter(pageRows)}} {
			for d, err := range b.listed(ctx, part.format, part.text) {
				if errors.Is(err, versionlog.ErrNotFound) {
					return
				}
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					yield(cas.Digest{}, fmt.Errorf("list: %w", err))
					return
				}
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// listed yields what a statement reads page by page, in a database of a format.
func (b *Blobs) listed(ctx context.Context, format int, text string) iter.Seq2[cas.Digest, error] {
	return paged(pageRows, func(last *cas.Digest, room []cas.Digest) ([]cas.Digest, error) {
		after := []byte{0} // before all; SQLite takes a part of an empty one for NULL
		if last != nil {
			after = last[:]
		}
		num, ok, err := b.ready(ctx, format)
		if err != nil || !ok {
			return nil, err
		}
		return queryInto(ctx, room, b.log.db, text, scanDigest, num, after)
	})
}

// one runs one of the statements that read a blob.
func (b *Blobs) one(ctx context.Context, text string, d cas.Digest) ([]byte, error) {
	format := blobsFormat
	if text == packedThere {
		format = packedFormat
	}
	num, ok, err := b.ready(ctx, format)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, versionlog.ErrNotFound
	}
	return queryOne(ctx, b.log.db, text, scanBytes, num, d[:])
}

// ready returns what reading takes: the store's number, and whether the database is of
// a format or a later one. A log that is open read-only may be of an earlier one, until
// another process brings it to a newer one.
func (b *Blobs) ready(ctx context.Context, format int) (num int64, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	if num = b.num.Load(); num == 0 {
		s, err := b.log.stores.row(ctx, b.storeID)
		if err != nil {
			return 0, false, err
		}
		num = s.num
		b.num.Store(num)
	}
	if b.log.format.Load() >= int64(format) {
		return num, true, nil
	}
	var found int
	err = retryBusy(ctx, func() error {
		return b.log.db.With(ctx, func(c *sqlite.Conn) (err error) {
			found, err = readFormat(c, b.log.root.Name())
			return err
		})
	})
	if err != nil {
		return num, false, err
	}
	b.log.format.Store(int64(found))
	return num, found >= format, nil
}

const (
	blobData  = `SELECT data FROM blobs WHERE store = ? AND sha256 = ?`
	blobThere = `SELECT sha256 FROM blobs WHERE store = ? AND sha256 = ?`
)

// blobsAfter reads so many digests above one.
func blobsAfter(limit int) string {
	return `SELECT sha256 FROM blobs WHERE store = ? AND sha256 > ? ORDER BY sha256 LIMIT ` + strconv.Itoa(limit)
}

// packedAfter reads so many digests above one, of contents that are packed and not in
// the table blobs, by the index packed_content.
func packedAfter(limit int) string {
	return `SELECT sha256 FROM packed p WHERE store = ?1 AND substr(sha256, 1, 8) >= substr(?2, 1, 8) AND sha256 > ?2 AND data IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.store = p.store AND b.sha256 = p.sha256)
		ORDER BY substr(sha256, 1, 8), sha256 LIMIT ` + strconv.Itoa(limit)
}

// bytesIn returns the bytes of a row's column, which are never nil.
func bytesIn(row *sqlite.Row, column int) []byte { return row.ColumnBlob(column, []byte{}) }

func scanBytes(row *sqlite.Row) ([]byte, error) { return bytesIn(row, 0), nil }

func scanDigest(row *sqlite.Row) (cas.Digest, error) { return digestIn(row, 0) }
