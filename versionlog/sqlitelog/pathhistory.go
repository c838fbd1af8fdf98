package sqlitelog

import (
	"context"
	"errors"
	"iter"
	"math"

	"mneme/versionlog"
)

// PathHistory yields every version that took place at a path, newest first: one
// stay of a memory after another, each from what ended it, or is its newest, down
// to what began it.
func (l *Log) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return func(yield func(versionlog.Version, error) bool) {
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
