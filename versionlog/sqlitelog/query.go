package sqlitelog

import (
	"context"
	"errors"
	"iter"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// source is where a statement runs: on one of the readers' connections, or on the
// one that writes.
type source interface {
	With(ctx context.Context, do func(*sqlite.Conn) error) error
}

// queryOne runs a statement that yields one row at most; none is ErrNotFound.
// Every statement is short, so ctx counts before and after one, never within.
func queryOne[T any](ctx context.Context, from source, text string, scan func(*sqlite.Row) (T, error), args ...any) (T, error) {
	var found T
	missing := true
	err := each(ctx, from, text, func() { missing = true }, func(row *sqlite.Row) (err error) {
		found, err = scan(row)
		missing = false
		return err
	}, args)
	if err == nil && missing {
		err = versionlog.ErrNotFound
	}
	return found, err
}

// exists reports whether queryOne has found a row.
func exists[T any](_ T, err error) (bool, error) {
	if errors.Is(err, versionlog.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// queryAll runs a statement and returns all its rows; with an error, those
// before it.
func queryAll[T any](ctx context.Context, from source, text string, scan func(*sqlite.Row) (T, error), args ...any) ([]T, error) {
	return queryInto(ctx, nil, from, text, scan, args...)
}

// queryInto is queryAll with a slice whose room is used for the rows.
func queryInto[T any](ctx context.Context, room []T, from source, text string, scan func(*sqlite.Row) (T, error), args ...any) ([]T, error) {
	found := room[:0]
	err := each(ctx, from, text, func() { found = found[:0] }, func(row *sqlite.Row) error {
		v, err := scan(row)
		if err == nil {
			found = append(found, v)
		}
		return err
	}, args)
	return found, err
}

// each runs a statement and calls row with every row. It calls begin first, and
// again whenever it has to start over because of a lock.
func each(ctx context.Context, from source, text string, begin func(), row func(*sqlite.Row) error, args []any) error {
	return retryBusy(ctx, func() error {
		begin()
		return translate(from.With(ctx, func(c *sqlite.Conn) error { return c.Each(text, row, args...) }))
	})
}

// paged yields what fetch returns, page after page, until one is not full.
// fetch is given the last row of the page before, nil at first. With an error
// it may return the rows before the bad one. The room for them is that of the
// page before.
func paged[T any](size int, fetch func(last *T, room []T) ([]T, error)) iter.Seq2[T, error] {
	return growing(size, size, func(last *T, room []T, _ int) ([]T, error) { return fetch(last, room) })
}

// growing is paged with pages that are small at first, for callers that may soon have enough: a page has
// up to size rows, and eight times as many as the one before.
func growing[T any](first, most int, fetch func(last *T, room []T, size int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		var page []T
		for size := min(first, most); ; size = min(8*size, most) {
			var err error
			page, err = fetch(last, page, size)
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
