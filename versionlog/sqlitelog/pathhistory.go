package sqlitelog

import (
	"context"
	"errors"
	"iter"
	"math"
	"strconv"

	"mneme/versionlog"
)

// PathHistory yields every version that took place at a path, newest first: one stay of a memory
// after another, each from the version that ended it, or is its newest, down to the one that
// began it.
func (l *Log) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return func(yield func(versionlog.Version, error) bool) {
			erased, err := l.hasErased(ctx, s.num)
			if err != nil {
				yield(versionlog.Version{}, err)
				return
			}
			if erased {
				l.tookPlace(ctx, s, path)(yield)
				return
			}
			end, err := queryOne(ctx, l.db, headAt, scanVersion, s.num, path)
			before := int64(math.MaxInt64)
			for {
				if errors.Is(err, versionlog.ErrNotFound) {
					end, err = queryOne(ctx, l.db, leftBefore, scanVersion, s.num, path, before)
				}
				switch {
				case errors.Is(err, versionlog.ErrNotFound):
					return
				case err != nil:
					yield(end, err)
					return
				}
				for v, err := range l.stay(ctx, s.num, path, end) {
					if !yield(v, err) || err != nil {
						return
					}
					before = int64(v.Seq)
				}
				err = versionlog.ErrNotFound
			}
		}
	})
}

// tookPlaceBefore reads so many versions that took place at a path below a sequence
// number.
func tookPlaceBefore(limit int) string {
	return `SELECT ` + versionColumns + ` FROM ` + versionTables + ` WHERE v.store = ?1 AND v.seq IN (
		SELECT seq FROM (SELECT seq FROM versions INDEXED BY versions_path WHERE store = ?1 AND path = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ` + strconv.Itoa(limit) + `)
		UNION SELECT seq FROM (SELECT y.seq FROM versions y WHERE y.store + 0 = ?1 AND CASE y.op WHEN 'renamed' THEN y.from_path ELSE y.path END = ?2
			AND y.op IN ('deleted', 'renamed') AND y.seq < ?3 ORDER BY y.seq DESC LIMIT ` + strconv.Itoa(limit) + `))
		AND (v.path = ?2 OR v.op = 'renamed' AND v.from_path = ?2) ORDER BY v.seq DESC LIMIT ` + strconv.Itoa(limit)
}

// hasErased reports whether a store has versions that were erased. Then the others do not
// tell when a memory came to a path and went.
func (l *Log) hasErased(ctx context.Context, store int64) (bool, error) {
	if l.stores.format < pastFormat { // nor has it ever been written to by a mneme that redacts
		return false, nil
	}
	return exists(queryOne(ctx, l.db, `SELECT 1 FROM versions INDEXED BY versions_path WHERE store = ? AND path = '' LIMIT 1`, scanMicros, store))
}

// tookPlace yields the versions that took place at a path, newest first.
func (l *Log) tookPlace(ctx context.Context, s storeRow, path string) iter.Seq2[versionlog.Version, error] {
	before := int64(s.tip.Seq) + 1
	return paged(pageRows, func(last *versionlog.Version, room []versionlog.Version) ([]versionlog.Version, error) {
		if last != nil {
			before = int64(last.Seq)
		}
		return queryInto(ctx, room, l.db, tookPlaceBefore(pageRows), scanVersion, s.num, path, before)
	})
}

// stay yields the versions of a memory at a path from end down to the one that
// brought it there.
func (l *Log) stay(ctx context.Context, store int64, path string, end versionlog.Version) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range l.versionsBefore(ctx, store, end.MemoryID, int64(end.Seq)+1) {
			if !yield(v, err) || err != nil || v.Path == path && v.Arrives() {
				return
			}
		}
	}
}
