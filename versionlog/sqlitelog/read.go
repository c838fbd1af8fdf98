package sqlitelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

	"mneme/versionlog"
)

// queryOne runs a statement that yields one row at most; none is ErrNotFound.
// Every statement is short, so ctx counts before and after one, never within.
// An interrupted connection would have to be opened anew.
func queryOne[T any](ctx context.Context, stmt *sql.Stmt, scan func(scanner) (T, error), args ...any) (T, error) {
	var found T
	err := retryBusy(ctx, func() error {
		var err error
		found, err = scan(stmt.QueryRowContext(context.WithoutCancel(ctx), args...))
		return translate(err)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = versionlog.ErrNotFound
	}
	return found, err
}

// queryAll runs a statement and returns all its rows; with an error, those
// before it.
func queryAll[T any](ctx context.Context, stmt *sql.Stmt, scan func(scanner) (T, error), args ...any) ([]T, error) {
	return queryInto(ctx, nil, stmt, scan, args...)
}

// queryInto is queryAll with a slice whose room is used for the rows.
func queryInto[T any](ctx context.Context, room []T, stmt *sql.Stmt, scan func(scanner) (T, error), args ...any) ([]T, error) {
	found := room[:0]
	err := retryBusy(ctx, func() error {
		rows, err := stmt.QueryContext(context.WithoutCancel(ctx), args...)
		if err != nil {
			return translate(err)
		}
		defer rows.Close()
		found = found[:0]
		for rows.Next() {
			row, err := scan(rows)
			if err != nil {
				return translate(err)
			}
			found = append(found, row)
		}
		return translate(rows.Err())
	})
	return found, err
}

// paged yields what fetch returns, page after page, until one is not full.
// fetch is given the last row of the page before, nil at first. With an error
// it may return the rows before the bad one. The room for them is that of the
// page before.
func paged[T any](size int, fetch func(last *T, room []T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		var page []T
		for {
			var err error
			page, err = fetch(last, page)
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if len(page) < size {
				return
			}
			row := page[len(page)-1]
			last = &row
		}
	}
}

func (l *Log) store(ctx context.Context, id string) (storeRow, error) {
	s, err := queryOne(ctx, l.read.storeByID, scanStore, id)
	if err != nil {
		return s, fmt.Errorf("store %s: %w", id, err)
	}
	return s, nil
}

// Tip returns the end of a store's history.
func (l *Log) Tip(ctx context.Context, storeID string) (versionlog.Tip, error) {
	s, err := l.store(ctx, storeID)
	s.tip.ArchivedAt = s.ArchivedAt
	return s.tip, err
}

// Head returns the live version of a path.
func (l *Log) Head(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.atPath(ctx, l.read.head, storeID, path)
}

// Last returns the newest version that took place at a path.
func (l *Log) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return l.atPath(ctx, l.read.last, storeID, path)
}

func (l *Log) atPath(ctx context.Context, stmt *sql.Stmt, storeID, path string) (versionlog.Version, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return versionlog.Version{}, err
	}
	v, err := queryOne(ctx, stmt, scanVersion, s.num, path)
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
	v, err := queryOne(ctx, l.read.version, scanVersion, s.num, int64(seq), ordinal, id)
	if err != nil {
		return v, fmt.Errorf("store %s: version %s: %w", s.Slug, id, err)
	}
	return v, nil
}

// Heads yields the live versions at and below prefix in the order of their
// paths.
func (l *Log) Heads(ctx context.Context, storeID, prefix string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		if prefix == "/" {
			return l.read.liveBelow(ctx, s.num, "")
		}
		return func(yield func(versionlog.Version, error) bool) {
			head, err := queryOne(ctx, l.read.head, scanVersion, s.num, prefix)
			if !errors.Is(err, versionlog.ErrNotFound) && (!yield(head, err) || err != nil) {
				return
			}
			l.read.liveBelow(ctx, s.num, prefix)(yield)
		}
	})
}

// Children yields one live version of each name in a directory, in the order
// of their paths.
func (l *Log) Children(ctx context.Context, storeID, dir string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return l.read.liveIn(ctx, s.num, strings.TrimSuffix(dir, "/"))
	})
}

// History yields every version of a memory, newest first.
func (l *Log) History(ctx context.Context, storeID, memoryID string) iter.Seq2[versionlog.Version, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[versionlog.Version, error] {
		return paged(pageRows, func(last *versionlog.Version, room []versionlog.Version) ([]versionlog.Version, error) {
			before := int64(math.MaxInt64)
			if last != nil {
				before = int64(last.Seq)
			}
			return queryInto(ctx, room, l.read.history, scanVersion, s.num, memoryID, before)
		})
	})
}

// Commits yields the commits above after, oldest first. A record that is
// missing or not the one that belongs there is versionlog.ErrCorrupt.
func (l *Log) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return within(ctx, l, storeID, func(s storeRow) iter.Seq2[*versionlog.Commit, error] {
		return paged(pageRecords, func(last **versionlog.Commit, room []*versionlog.Commit) ([]*versionlog.Commit, error) {
			from := after
			if last != nil {
				from = (*last).Seq
			}
			if from > math.MaxInt64 {
				return nil, nil
			}
			page, err := queryInto(ctx, room, l.read.commits, scanRecord, s.num, int64(from))
			page, gap := dense(s.ID, from, page)
			if gap != nil {
				err = gap
			}
			return page, err
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

// within looks the store up and then walks it. Errors are named after it.
func within[T any](ctx context.Context, l *Log, storeID string, walk func(storeRow) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		s, err := l.store(ctx, storeID)
		if err != nil {
			yield(none, err)
			return
		}
		for v, err := range walk(s) {
			if err != nil {
				yield(none, fmt.Errorf("store %s: %w", s.Slug, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

const afterSlash = "0" // the byte after '/'

// liveBelow yields the live versions whose path begins with above and a slash.
func (s *statements) liveBelow(ctx context.Context, store int64, above string) iter.Seq2[versionlog.Version, error] {
	return paged(pageRows, func(last *versionlog.Version, room []versionlog.Version) ([]versionlog.Version, error) {
		from := above + "/"
		if last != nil {
			from = last.Path
		}
		return queryInto(ctx, room, s.below, scanVersion, store, from, above+afterSlash)
	})
}

// liveIn yields one live version of each name below above and a slash. Where a
// page ends within a subdirectory, the next one begins behind that. Where that
// leaves little of a page, the next ones are single rows.
func (s *statements) liveIn(ctx context.Context, store int64, above string) iter.Seq2[versionlog.Version, error] {
	const afterAll = "\xff" // no path has this byte, so it sorts behind all that lies below
	const inARow = 32       // single rows, before a page is tried again
	return func(yield func(versionlog.Version, error) bool) {
		from := above + "/"
		for singles := 0; ; {
			stmt, size := s.children, pageNames
			if singles > 0 {
				stmt, size = s.child, 1
				singles--
			}
			names := 0
			page, err := queryAll(ctx, stmt, scanVersion, store, from, above+afterSlash)
			if err != nil {
				yield(versionlog.Version{}, err)
				return
			}
			for _, v := range page {
				if v.Path < from { // below the subdirectory that the row before has told of
					continue
				}
				names++
				from = v.Path
				if name, _, deeper := strings.Cut(v.Path[len(above)+1:], "/"); deeper {
					from = above + "/" + name + "/" + afterAll
				}
				if !yield(v, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			if names*4 <= size {
				singles = inARow
			}
		}
	}
}
