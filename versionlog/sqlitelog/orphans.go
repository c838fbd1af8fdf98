package sqlitelog

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"mneme/cas"
	"mneme/internal/sqlite"
)

const (
	// erasedIn finds a version that was erased.
	erasedIn = `SELECT 1 FROM versions INDEXED BY versions_path WHERE store = ? AND path = '' LIMIT 1`

	// orphanBlobs are contents in the table blobs that no version has.
	orphanBlobs = `SELECT b.sha256, length(b.data), b.rowid FROM blobs b WHERE b.store = ? AND NOT EXISTS (SELECT 1 FROM versions v INDEXED BY versions_content
		WHERE v.store = b.store AND v.sha256 IS NOT NULL AND substr(v.sha256, 1, 8) = substr(b.sha256, 1, 8) AND v.sha256 = b.sha256)`

	// settledBlob is the newest row of blobs, of any store, whose content came with a commit
	// that was made before a time.
	settledBlob = `SELECT b.rowid FROM blobs b WHERE (SELECT min(c.time) FROM versions v INDEXED BY versions_content
			JOIN commits c ON c.store = v.store AND c.seq = v.seq
			WHERE v.store = b.store AND v.sha256 IS NOT NULL AND substr(v.sha256, 1, 8) = substr(b.sha256, 1, 8) AND v.sha256 = b.sha256) <= ?
		ORDER BY b.rowid DESC LIMIT 1`
)

// Orphans are contents that no version has.
type Orphans struct {
	Contents int
	Bytes    int64 // of them
}

// Collect removes the contents of a store that no version has and that were stored longer
// than grace ago, or with keep only counts them. Progress is called with how many of the
// contents that no version has are done.
//
// Writers continue meanwhile, and lose nothing: contents are judged and removed while no process
// can commit, a few at a time. A commit whose content is no longer stored is refused, see
// missing, so that the process that makes it stores the content again. The grace time only spares
// them that. A file has the time at which it was last put. A row has none: it counts as old once
// a row that was stored after it belongs to a commit that is.
func (l *Log) Collect(ctx context.Context, storeID string, grace time.Duration, keep bool, progress func(done, total int)) (Orphans, error) {
	if progress == nil {
		progress = func(int, int) {}
	}
	var found Orphans
	s, err := l.store(ctx, storeID)
	if err != nil {
		return found, err
	}
	var before time.Time
	if grace > 0 {
		now, _ := l.instant()
		before = now.Add(-grace)
	}
	all, err := l.orphans(ctx, s.num, storeID, before)
	if err != nil {
		return found, err
	}
	progress(0, len(all))
	for some := range slices.Chunk(all, orphansAtOnce) {
		gone := some
		if !keep {
			if gone, err = l.removeOrphans(ctx, s.num, storeID, some, before); err != nil {
				return found, err
			}
		}
		for _, o := range gone {
			found.Contents++
			found.Bytes += o.size
		}
		progress(found.Contents, len(all))
	}
	return found, nil
}

// orphansAtOnce is how many contents are removed while no process can commit. The directory of
// each file is synced.
const orphansAtOnce = 32

// orphan is a content that no version has, in a file or in a row.
type orphan struct {
	digest cas.Digest
	size   int64
	inFile bool
}

// orphans returns the contents that no version of a store has and that were stored before a time,
// the zero time being any, while others write: the caller must judge them again.
func (l *Log) orphans(ctx context.Context, num int64, storeID string, before time.Time) ([]orphan, error) {
	type row struct {
		orphan
		id int64
	}
	var rows []row
	var settled int64
	var all []orphan
	err := l.reading(ctx, func(from source) (err error) {
		rows, err = queryAll(ctx, from, orphanBlobs, func(r *sqlite.Row) (row, error) {
			d, err := digestIn(r, 0)
			return row{orphan{d, r.ColumnInt64(1), false}, r.ColumnInt64(2)}, err
		}, num)
		if err != nil || len(rows) == 0 {
			return err
		}
		settled, err = l.settledBlob(ctx, from, before)
		return err
	})
	if err != nil {
		return nil, translate(err)
	}
	for _, r := range rows {
		if r.id < settled {
			all = append(all, r.orphan)
		}
	}
	files, err := l.filesOf(storeID)
	if err != nil || files == nil {
		return all, err
	}
	var stored []cas.Digest
	for d, err := range files.List(ctx) {
		if err != nil {
			return nil, err
		}
		stored = append(stored, d)
	}
	for some := range slices.Chunk(stored, pageRows) {
		var unneeded []cas.Digest
		err := l.reading(ctx, func(from source) error {
			for _, d := range some {
				needed, err := exists(queryOne(ctx, from, versionWith, scanMicros, num, d[:]))
				if err != nil {
					return err
				}
				if !needed {
					unneeded = append(unneeded, d)
				}
			}
			return nil
		})
		if err != nil {
			return nil, translate(err)
		}
		for _, d := range unneeded {
			size, old, err := storedBefore(ctx, files, d, before)
			if err != nil {
				return nil, err
			}
			if old {
				all = append(all, orphan{d, size, true})
			}
		}
	}
	return all, nil
}

// settledBlob returns a row of blobs, and all before it are older than a time; 0: none is
// known to be.
func (l *Log) settledBlob(ctx context.Context, from source, before time.Time) (int64, error) {
	if before.IsZero() {
		return math.MaxInt64, nil
	}
	ids, err := queryAll(ctx, from, settledBlob, func(r *sqlite.Row) (int64, error) { return r.ColumnInt64(0), nil }, before.UnixMicro())
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return ids[0], nil
}

// storedBefore reports how large a file is, and whether it was last put before a time.
func storedBefore(ctx context.Context, files Files, d cas.Digest, before time.Time) (size int64, old bool, err error) {
	dater, ok := files.(cas.Dater)
	if !ok {
		return 0, true, nil
	}
	size, at, err := dater.Stored(ctx, d)
	if errors.Is(err, cas.ErrNotFound) { // another process was first
		return 0, false, nil
	}
	return size, err == nil && (before.IsZero() || !at.After(before)), err
}

// removeOrphans removes those of some contents that are still of no version, and not put again
// since a time, and returns them. No process can commit meanwhile: a commit that needs one comes
// before, and is seen, or looks for it in vain, see missing.
func (l *Log) removeOrphans(ctx context.Context, num int64, storeID string, some []orphan, before time.Time) (gone []orphan, err error) {
	w := l.writer
	files, err := l.filesOf(storeID)
	if err != nil {
		return nil, err
	}
	err = w.transaction(ctx, func(ctx context.Context) error {
		there, err := exists(queryOne(ctx, w, `SELECT 1 FROM stores WHERE num = ?`, scanMicros, num))
		if err != nil || !there {
			return err
		}
		for _, o := range some {
			needed, err := w.isNeeded(ctx, num, o.digest)
			if err != nil {
				return err
			}
			if needed {
				continue
			}
			if o.inFile {
				var old bool
				if _, old, err = storedBefore(ctx, files, o.digest, before); err == nil && !old {
					continue
				}
				if err == nil {
					err = files.Delete(ctx, o.digest)
				}
				if err == nil {
					err = w.run(fileGone, num, o.digest[:])
				}
			} else {
				err = l.Blobs(storeID).remove(ctx, w, num, o.digest)
			}
			if err != nil {
				return err
			}
			gone = append(gone, o)
		}
		return nil
	})
	return gone, err
}

// hasErased reports whether a version of a store was erased.
func hasErased(ctx context.Context, from source, store int64) (bool, error) {
	return exists(queryOne(ctx, from, erasedIn, scanMicros, store))
}

// removeErasedOrphans removes at once the contents that no version has from a store that has
// erased ones, and returns how many files went: one may have been stored again, for a commit
// that never came to be.
//
// Stores without erased versions keep theirs: an import stores contents long before the
// commits that need them.
func (l *Log) removeErasedOrphans(ctx context.Context, num int64, storeID string) (n int, err error) {
	erased, err := hasErased(ctx, l.db, num)
	if err != nil || !erased {
		return 0, err
	}
	all, err := l.orphans(ctx, num, storeID, time.Time{})
	for some := range slices.Chunk(all, orphansAtOnce) {
		if err != nil {
			break
		}
		some, err = l.removeOrphans(ctx, num, storeID, some, time.Time{})
		for _, o := range some {
			if o.inFile {
				n++
			}
		}
	}
	return n, err
}
