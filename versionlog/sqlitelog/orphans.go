package sqlitelog

import (
	"context"

	"mneme/cas"
)

const (
	// erasedIn finds a version that was erased.
	erasedIn = `SELECT 1 FROM versions INDEXED BY versions_path WHERE store = ? AND path = '' LIMIT 1`

	// orphanBlobs are contents in the table blobs that no version has.
	orphanBlobs = `SELECT b.sha256 FROM blobs b WHERE b.store = ? AND NOT EXISTS (SELECT 1 FROM versions v INDEXED BY versions_content
		WHERE v.store = b.store AND v.sha256 IS NOT NULL AND substr(v.sha256, 1, 8) = substr(b.sha256, 1, 8) AND v.sha256 = b.sha256)`
)

// hasErased reports whether a version of a store was erased.
func hasErased(ctx context.Context, from source, store int64) (bool, error) {
	return exists(queryOne(ctx, from, erasedIn, scanMicros, store))
}

// removeOrphans removes the contents that no version has from a store that has erased
// ones, and returns how many files went: one may have been stored again, for a commit that
// never came to be. A commit that is still to come, and misses its content then, is
// refused, see missing, and whoever makes it stores the content again.
//
// Stores without erased versions keep theirs: an import stores contents long before the
// commits that need them.
func (l *Log) removeOrphans(ctx context.Context, num int64, storeID string) (n int, err error) {
	w := l.writer
	erased, err := hasErased(ctx, l.db, num)
	if err != nil || !erased {
		return 0, err
	}
	files, err := l.filesOf(storeID)
	if err != nil {
		return 0, err
	}
	var stored []cas.Digest
	if lister, ok := files.(cas.Lister); ok { // while others write, for there may be many
		for d, err := range lister.List(ctx) {
			if err != nil {
				return 0, err
			}
			stored = append(stored, d)
		}
	}
	err = w.transaction(ctx, func(ctx context.Context) error {
		there, err := exists(queryOne(ctx, w, `SELECT 1 FROM stores WHERE num = ?`, scanMicros, num))
		if err != nil || !there {
			return err
		}
		blobs, err := queryAll(ctx, w, orphanBlobs, scanDigest, num)
		for _, d := range blobs {
			if err == nil {
				err = l.Blobs(storeID).remove(ctx, w, num, d)
			}
		}
		for _, d := range stored {
			if err != nil {
				break
			}
			var needed bool
			if needed, err = w.isNeeded(ctx, num, d); err != nil || needed {
				continue
			}
			if err = files.Delete(ctx, d); err == nil {
				n++
				err = w.run(fileGone, num, d[:])
			}
		}
		return err
	})
	return n, err
}
