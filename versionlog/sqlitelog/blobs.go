package sqlitelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mneme/cas"
	"mneme/versionlog"
)

// MaxContent is the size in bytes up to which a Log keeps contents itself. Up to
// this a row is written in less than half the time that the two syncs of a file
// and its directory add; from half a mebibyte on, a file is as fast.
const MaxContent = 128 << 10

// KeepsContent implements versionlog.ContentKeeper.
func (l *Log) KeepsContent(n int) bool { return n <= MaxContent }

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
	err := b.write(ctx, func(ctx context.Context, w *writer, num int64) error { return w.keep(ctx, num, d, data) })
	if err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, err)
	}
	return d, nil
}

// Delete implements cas.Deleter.
func (b *Blobs) Delete(ctx context.Context, d cas.Digest) error {
	err := b.write(ctx, func(ctx context.Context, w *writer, num int64) error { return run(ctx, w.dropBlob, num, d[:]) })
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
		return fmt.Errorf("delete %v: %w", d, err)
	}
	return nil
}

func (b *Blobs) write(ctx context.Context, do func(ctx context.Context, w *writer, num int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := b.log.writer
	if w == nil {
		return versionlog.ErrReadOnly
	}
	return w.transaction(ctx, func(ctx context.Context) error {
		s, err := queryOne(ctx, w.read.storeByID, scanStore, b.storeID)
		if err != nil {
			return err
		}
		return do(ctx, w, s.num)
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
	data, err := readBlob(ctx, b, func(s *blobStatements) *sql.Stmt { return s.get }, scanBytes, d[:])
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		return nil, cas.ErrNotFound
	case errors.Is(err, versionlog.ErrCorrupt): // pages of the database
		return nil, fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	case err != nil:
		return nil, err
	case cas.Sum(data) != d:
		return nil, cas.ErrCorrupt
	}
	return data, nil
}

// batchSize is how many blobs one statement reads. A transaction, its locks and
// a statement's way through database/sql cost as much as three blobs of 4 KiB.
const batchSize = 32

// BatchSize implements cas.BatchGetter.
func (b *Blobs) BatchSize() int { return batchSize }

// GetBatch implements cas.BatchGetter.
func (b *Blobs) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	all := make([][]byte, len(ds))
	num, s, err := b.ready(ctx)
	if err != nil || s == nil {
		return all
	}
	found := make(map[cas.Digest][]byte, len(ds))
	for batch := range slices.Chunk(ds, batchSize) {
		args := make([]any, 1, 1+batchSize)
		args[0] = num
		for i := range batchSize {
			args = append(args, batch[min(i, len(batch)-1)][:])
		}
		rows, err := queryInto(ctx, nil, s.batch, scanBlob, args...)
		if err != nil {
			break
		}
		for _, row := range rows {
			if cas.Sum(row.data) == row.digest {
				found[row.digest] = row.data
			}
		}
	}
	for i, d := range ds {
		all[i] = found[d]
	}
	return all
}

// Has implements cas.Store.
func (b *Blobs) Has(ctx context.Context, d cas.Digest) (bool, error) {
	_, err := readBlob(ctx, b, func(s *blobStatements) *sql.Stmt { return s.has }, scanBytes, d[:])
	if errors.Is(err, versionlog.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("has %v: %w", d, err)
	}
	return true, nil
}

// List implements cas.Lister.
func (b *Blobs) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	pages := paged(pageRows, func(last *cas.Digest, room []cas.Digest) ([]cas.Digest, error) {
		after := []byte{}
		if last != nil {
			after = last[:]
		}
		num, s, err := b.ready(ctx)
		if err != nil || s == nil {
			return nil, err
		}
		return queryInto(ctx, room, s.list, scanDigest, num, after)
	})
	return func(yield func(cas.Digest, error) bool) {
		for d, err := range pages {
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

// readBlob runs one of the statements that read, for one blob.
func readBlob[T any](ctx context.Context, b *Blobs, which func(*blobStatements) *sql.Stmt, scan func(scanner) (T, error), of []byte) (T, error) {
	var none T
	num, s, err := b.ready(ctx)
	if err != nil {
		return none, err
	}
	if s == nil {
		return none, versionlog.ErrNotFound
	}
	return queryOne(ctx, which(s), scan, num, of)
}

// ready returns what reading takes: the store's number and the statements,
// which are nil as long as the database has no blobs.
func (b *Blobs) ready(ctx context.Context) (int64, *blobStatements, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	num := b.num.Load()
	if num == 0 {
		s, err := queryOne(ctx, b.log.read.storeByID, scanStore, b.storeID)
		if err != nil {
			return 0, nil, err
		}
		num = s.num
		b.num.Store(num)
	}
	s, err := b.log.blobs.prepared(ctx, b.log)
	return num, s, err
}

// blobReads are the prepared reads of blobs. A log that is open read-only may
// be of a format without them, until another process brings it to a newer one.
type blobReads struct {
	mu  sync.Mutex // guards all
	all *blobStatements
}

type blobStatements struct {
	get, batch, has, list *sql.Stmt

	all []*sql.Stmt
}

func (r *blobReads) prepared(ctx context.Context, l *Log) (*blobStatements, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all != nil {
		return r.all, nil
	}
	var format int
	err := retryBusy(ctx, func() (err error) {
		format, err = readFormat(ctx, l.db, l.dir)
		return err
	})
	if err != nil || format < blobsFormat {
		return nil, err
	}
	s := &blobStatements{}
	err = retryBusy(ctx, func() (err error) {
		s.all, err = prepare(ctx, l.db, []query{
			{&s.get, `SELECT data FROM blobs WHERE store = ? AND sha256 = ?`},
			{&s.batch, `SELECT sha256, data FROM blobs WHERE store = ? AND sha256 IN (?` + strings.Repeat(", ?", batchSize-1) + `)`},
			{&s.has, `SELECT sha256 FROM blobs WHERE store = ? AND sha256 = ?`},
			{&s.list, `SELECT sha256 FROM blobs WHERE store = ? AND sha256 > ? ORDER BY sha256 LIMIT ` + strconv.Itoa(pageRows)},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	r.all = s
	return s, nil
}

func (r *blobReads) close() error {
	if r.all == nil {
		return nil
	}
	return closeAll(r.all.all)
}

func scanBytes(row scanner) ([]byte, error) {
	var data ownBytes
	err := row.Scan(&data)
	return data, err
}

// blobRow is a blob as it is stored, not verified.
type blobRow struct {
	digest cas.Digest
	data   []byte
}

func scanBlob(row scanner) (blobRow, error) {
	var digest, data ownBytes
	if err := row.Scan(&digest, &data); err != nil {
		return blobRow{}, err
	}
	d, err := digestOf(digest)
	return blobRow{d, data}, err
}

// ownBytes takes a BLOB as the driver hands it over. database/sql would copy it,
// because a driver may use its memory again; this one makes every value anew.
type ownBytes []byte

// Scan implements sql.Scanner.
func (b *ownBytes) Scan(value any) error {
	data, ok := value.([]byte)
	if !ok && value != nil {
		return fmt.Errorf("%w: %T in place of bytes", versionlog.ErrCorrupt, value)
	}
	if *b = data; data == nil { // of an empty one
		*b = []byte{}
	}
	return nil
}

func scanDigest(row scanner) (cas.Digest, error) {
	data, err := scanBytes(row)
	if err != nil {
		return cas.Digest{}, err
	}
	return digestOf(data)
}
