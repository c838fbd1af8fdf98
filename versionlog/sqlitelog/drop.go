package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// DeleteStore removes a store with its whole history and the blobs that the log keeps for it.
// Nothing of them is left in the files, unless a process reads at that moment; then it goes as
// the write-ahead log is written over.
//
//  1. The store's row goes, in one small commit: the store is gone for all processes.
//  2. The data that it leaves goes slice by slice. Others write in between, and the write-ahead
//     log stays small, so that a full disk has room for it.
//
// Should that be interrupted, the next DeleteStore continues, also one of a store that is gone
// already.
func (l *Log) DeleteStore(ctx context.Context, id string) error {
	drop := func(ctx context.Context, w *writer) (*storeRow, tipState, error) {
		s, err := queryOne(ctx, w, storeByID, scanStore, id)
		if err != nil {
			return nil, tipDeleted, err
		}
		return &s, tipDeleted, w.run(dropStore, s.num)
	}
	err := l.changeStores(ctx, "delete store "+id, drop)
	if errors.Is(err, syscall.ENOSPC) {
		_, _ = l.writer.checkpoint(ctx, "TRUNCATE") // which makes room
		err = l.changeStores(ctx, "delete store "+id, drop)
	}
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) || l.writer == nil {
		return err
	}
	if err == nil {
		l.recent.forget(id)
	}
	if dropErr := l.dropLeft(ctx); dropErr != nil {
		return errors.Join(err, fmt.Errorf("store %s is deleted, but not all of its history is removed; delete it again by its id: %w", id, dropErr))
	}
	_, _ = l.writer.checkpoint(ctx, "TRUNCATE")
	return err
}

// dropSlice is how many bytes of contents and records, and dropRows how many rows, one
// commit of a deletion removes.
const (
	dropSlice = 128 << 10
	dropRows  = 500
)

// dropLeft removes what deleted stores have left, in slices.
func (l *Log) dropLeft(ctx context.Context) error {
	return dropLeft(ctx, l.db, func(t leftTable, num int64) error {
		err := l.writer.transaction(ctx, func(ctx context.Context) error { return l.writer.dropRows(ctx, t, num) })
		if err == nil {
			_, _ = l.writer.checkpoint(ctx, "PASSIVE") // so that the next slice is written over this one
		}
		return err
	})
}

// dropLeft calls drop, which removes some rows of a store that is gone from a table, for
// as long as there are any.
func dropLeft(ctx context.Context, from source, drop func(t leftTable, num int64) error) error {
	for _, t := range leftTables {
		for {
			num, err := queryOne(ctx, from, t.left(), func(row *sqlite.Row) (int64, error) { return row.ColumnInt64(0), nil })
			if errors.Is(err, versionlog.ErrNotFound) {
				break
			}
			if err == nil {
				err = drop(t, num)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// leftTable is one with rows of stores.
type leftTable struct {
	name, key string
	bytes     string // that a row holds, except small columns
	scan      func(*sqlite.Row) any
}

var leftTables = []leftTable{
	{"blobs", "sha256", "length(data)", func(r *sqlite.Row) any { return r.ColumnBlob(0, nil) }},
	{"packed", "substr(sha256, 1, 8)", "coalesce(length(data), 0)", func(r *sqlite.Row) any { return r.ColumnBlob(0, nil) }},
	{"packed_records", "seq", "length(data)", func(r *sqlite.Row) any { return r.ColumnInt64(0) }},
	{"packing", "seq", "0", func(r *sqlite.Row) any { return r.ColumnInt64(0) }},
	{"files_left", "sha256", "0", func(r *sqlite.Row) any { return r.ColumnBlob(0, nil) }},
	{"commits", "seq", "length(record) + octet_length(message)", func(r *sqlite.Row) any { return r.ColumnInt64(0) }},
	{"versions", "seq", "0", func(r *sqlite.Row) any { return r.ColumnInt64(0) }},
	{"early", "id", "0", func(r *sqlite.Row) any { return r.ColumnText(0) }},
	{"paths", "path", "0", func(r *sqlite.Row) any { return r.ColumnText(0) }},
}

// left finds a store that is gone and has rows in the table.
func (t leftTable) left() string {
	return t.numbers() + ` SELECT num FROM s WHERE num IS NOT NULL AND num NOT IN (SELECT num FROM stores) LIMIT 1`
}

// numbers begins a query with s, the numbers of the stores that have rows in the
// table. It goes from store to store, not from row to row.
func (t leftTable) numbers() string {
	return `WITH RECURSIVE s(num) AS (SELECT min(store) FROM ` + t.name + `
			UNION ALL SELECT (SELECT min(store) FROM ` + t.name + ` WHERE store > num) FROM s WHERE num IS NOT NULL)`
}

// dropRows removes the first rows of a store from a table, within a transaction.
func (w *writer) dropRows(ctx context.Context, t leftTable, num int64) error {
	var keys []any
	bytes := int64(0)
	text := `SELECT DISTINCT ` + t.key + `, ` + t.bytes + ` FROM ` + t.name + ` WHERE store = ? ORDER BY ` + t.key + ` LIMIT ?`
	err := each(ctx, w, text, func() { keys, bytes = nil, 0 }, func(r *sqlite.Row) error {
		if bytes <= dropSlice {
			bytes += r.ColumnInt64(1)
			keys = append(keys, t.scan(r))
		}
		return nil
	}, []any{num, dropRows})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := w.run(`DELETE FROM `+t.name+` WHERE store = ? AND `+t.key+` = ?`, num, key); err != nil {
			return err
		}
	}
	return nil
}

// Reusable is how many bytes of the database hold nothing, such as what a deleted store
// has left: commits are written there before the file grows.
func (l *Log) Reusable(ctx context.Context) (int64, error) {
	return queryOne(ctx, l.db, `SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size`,
		func(row *sqlite.Row) (int64, error) { return row.ColumnInt64(0), nil })
}
