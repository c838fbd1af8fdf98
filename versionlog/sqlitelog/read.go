package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

func (l *Log) store(ctx context.Context, id string) (storeRow, error) {
	s, err := l.stores.row(ctx, id)
	if err != nil {
		return s, fmt.Errorf("store %s: %w", id, err)
	}
	return s, nil
}

// Tip returns the end of a store's history.
func (l *Log) Tip(ctx context.Context, storeID string) (versionlog.Tip, error) {
	s, err := l.store(ctx, storeID)
	if err == nil && l.stores.format >= quotasFormat && !s.isCounted() {
		err = l.stores.count(ctx, &s)
	}
	return s.end(), err
}

// KnownTip is one of the log's Capabilities. It knows the tip as of the last call
// that asked for it or committed, unless another process has committed since.
func (l *Log) KnownTip(storeID string) (versionlog.Tip, bool) {
	now := l.stores.moment()
	s, ok := l.stores.get(&now, storeID)
	return s.end(), ok
}

// Head returns the live version of a path.
func (l *Log) Head(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.atPath(ctx, headAt, storeID, path)
}

// Last returns the newest version that took place at a path.
func (l *Log) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.atPath(ctx, lastAt, storeID, path)
}

// Held reports whether something is below a path, or ever was.
func (l *Log) Held(ctx context.Context, storeID, path string) (bool, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return false, err
	}
	above := path + "/"
	return exists(queryOne(ctx, l.db, heldBelow, scanMicros, s.num, above, above+afterAll))
}

func (l *Log) atPath(ctx context.Context, text, storeID, path string) (versionlog.Version, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return versionlog.Version{}, err
	}
	v, err := queryOne(ctx, l.db, text, scanVersion, s.num, path)
	if err != nil {
		return v, fmt.Errorf("store %s: %s: %w", s.Slug, path, err)
	}
	return v, nil
}

// Version returns a version of a store by its id.
func (l *Log) Version(ctx context.Context, storeID, id string) (versionlog.Version, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return versionlog.Version{}, err
	}
	seq, ordinal, err := versionlog.LocateVersion(id)
	if err != nil {
		return versionlog.Version{}, fmt.Errorf("store %s: %w: %w", s.Slug, versionlog.ErrNotFound, err)
	}
	v, err := queryOne(ctx, l.db, versionByID, scanVersion, s.num, int64(seq), ordinal, id)
	if err != nil {
		return v, fmt.Errorf("store %s: version %s: %w", s.Slug, id, err)
	}
	return v, nil
}

// Heads yields the live versions at and below prefix in the order of their
// paths.
func (l *Log) Heads(ctx context.Context, storeID, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return headsNow(l.db, s.num).under(ctx, prefix, after)
	})
}

// Children yields one live version of each name in a directory, in the order
// of their paths.
func (l *Log) Children(ctx context.Context, storeID, dir string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return headsNow(l.db, s.num).in(ctx, strings.TrimSuffix(dir, "/"))
	})
}

// History yields the versions of a memory below a sequence number, newest first.
func (l *Log) History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return l.versionsBefore(ctx, s.num, memoryID, highest(before))
	})
}

// highest returns a bound of sequence numbers, which 0 is none for.
func highest(before uint64) int64 {
	if before == 0 || before > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(before)
}

// Newest returns the newest version of a memory.
func (l *Log) Newest(ctx context.Context, storeID, memoryID string) (versionlog.Version, error) {
	return l.newest(ctx, storeID, memoryID, newestOf, scanVersion)
}

// newest reads the newest version of a memory by one of two statements.
func (l *Log) newest(ctx context.Context, storeID, memoryID, statement string, scan func(*sqlite.Row) (versionlog.Version, error)) (versionlog.Version, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return versionlog.Version{}, err
	}
	v, err := queryOne(ctx, l.db, statement, scan, s.num, memoryID)
	if err != nil {
		return v, fmt.Errorf("store %s: memory %s: %w", s.Slug, memoryID, err)
	}
	return v, nil
}

// newestContent is one of the log's Capabilities.
func (l *Log) newestContent(ctx context.Context, storeID, memoryID string) (v versionlog.Version, data []byte, err error) {
	if l.stores.format < blobsFormat {
		v, err = l.Newest(ctx, storeID, memoryID)
		return v, nil, err
	}
	v, err = l.newest(ctx, storeID, memoryID, newestContentOf, func(row *sqlite.Row) (versionlog.Version, error) {
		data = row.ColumnBlob(behindVersion, []byte{})
		return scanVersion(row)
	})
	if err != nil || cas.Sum(data) != v.Digest {
		return v, nil, err
	}
	return v, data, nil
}

// versionsBefore yields the versions of a memory below a sequence number, newest
// first.
func (l *Log) versionsBefore(ctx context.Context, store int64, memoryID string, before int64) iter.Seq2[versionlog.Version, error] {
	return growing(firstRows, pageRows, func(last *versionlog.Version, room []versionlog.Version, size int) ([]versionlog.Version, error) {
		if last != nil {
			before = int64(last.Seq)
		}
		return queryInto(ctx, room, l.db, historyBefore(size), scanVersion, store, memoryID, before)
	})
}

// Commits yields the commits above after, oldest first. A record that is
// missing or not the one that belongs there is versionlog.ErrCorrupt.
func (l *Log) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[*versionlog.Commit, error] {
		return commitsAfter(ctx, l.db, &s, after)
	})
}

// commitsAfter yields the commits of a store above after, as Commits does.
func commitsAfter(ctx context.Context, in source, s *storeRow, after uint64) iter.Seq2[*versionlog.Commit, error] {
	of := &records{source: in, store: s.num}
	return paged(pageRecords, func(last **versionlog.Commit, room []*versionlog.Commit) ([]*versionlog.Commit, error) {
		from := after
		if last != nil {
			from = (*last).Seq
		}
		if from > math.MaxInt64 {
			return nil, nil
		}
		page, err := of.all(ctx, room, recordsAfter(pageRecords), s.num, int64(from))
		page, gap := dense(s.ID, from, page)
		if gap != nil {
			err = gap
		}
		return page, err
	})
}

// CommitsBefore yields the commits below a sequence number that f takes, newest first.
func (l *Log) CommitsBefore(ctx context.Context, storeID string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !f.From.IsZero() {
		from = f.From.Add(time.Microsecond - 1).UnixMicro() // a time between two microseconds is not before it
	}
	if !f.To.IsZero() {
		to = f.To.UnixMicro()
	}
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[*versionlog.Commit, error] {
		below := highest(before)
		of := &records{source: l.db, store: s.num}
		return growing(firstRows, pageRecords, func(last **versionlog.Commit, room []*versionlog.Commit, size int) ([]*versionlog.Commit, error) {
			if last != nil {
				below = int64((*last).Seq)
			}
			return of.all(ctx, room, recordsBefore(size, f.MemoryID != ""),
				s.num, below, f.Session, f.ActorID, from, to, string(f.Op), f.MemoryID)
		})
	})
}

// dense returns the commits of a page that follow one another from after on,
// and an error when they are not all.
func dense(storeID string, after uint64, page []*versionlog.Commit) ([]*versionlog.Commit, error) {
	for i, c := range page {
		if want := after + uint64(i) + 1; c.Seq != want || c.StoreID != storeID {
			return page[:i], fmt.Errorf("%w: in place of commit %d of store %s stands commit %d of %s",
				versionlog.ErrCorrupt, want, storeID, c.Seq, c.StoreID)
		}
	}
	return page, nil
}

// within looks the store up and then walks it. Errors are named after it. Where it turns
// out to be damaged, it is looked up again: it may have been deleted meanwhile.
func within[T any](ctx context.Context, l *Log, storeID string, walk func(storeRow) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		s, err := l.store(ctx, storeID)
		if err != nil {
			yield(none, err)
			return
		}
		named(s.Slug, walk(s))(func(v T, err error) bool {
			if errors.Is(err, versionlog.ErrCorrupt) {
				if _, gone := l.store(ctx, storeID); errors.Is(gone, versionlog.ErrNotFound) {
					err = gone
				}
			}
			return yield(v, err)
		})
	}
}

// named names errors after a store.
func named[T any](slug string, walk iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range walk {
			if err != nil {
				yield(v, fmt.Errorf("store %s: %w", slug, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
