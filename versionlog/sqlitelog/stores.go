package sqlitelog

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"mneme/versionlog"
)

// CreateStore adds a store.
func (l *Log) CreateStore(ctx context.Context, s versionlog.Store) error {
	if s.ID == "" || s.Slug == "" {
		return fmt.Errorf("create store %q: %w: id and slug must be set", s.Slug, versionlog.ErrInvalid)
	}
	return l.changeStores(ctx, "create store "+s.Slug, func(ctx context.Context, w *writer) (*storeRow, tipState, error) {
		err := w.createStore(&s)
		if isConstraint(err) {
			err = versionlog.ErrExists
		}
		if err != nil {
			return nil, tipInUse, err
		}
		made, err := queryOne(ctx, w, storeByID, scanStore, s.ID)
		return &made, tipInUse, err
	})
}

// Store returns the store of an id.
func (l *Log) Store(ctx context.Context, id string) (versionlog.Store, error) {
	s, err := l.store(ctx, id)
	return s.Store.Clone(), err // the row may be known to others
}

// StoreNamed returns the store of a slug.
func (l *Log) StoreNamed(ctx context.Context, slug string) (versionlog.Store, error) {
	s, err := queryOne(ctx, l.db, readStores(l.stores.format)+`WHERE slug = ?`, scanStore, slug)
	if err != nil {
		return s.Store, fmt.Errorf("store %s: %w", slug, err)
	}
	return s.Store, nil
}

// Stores yields the stores behind a slug, ordered by slug.
func (l *Log) Stores(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	text := readStores(l.stores.format) + `WHERE slug > ? ORDER BY slug LIMIT ` + strconv.Itoa(pageRows)
	rows := paged(pageRows, func(last *storeRow, room []storeRow) ([]storeRow, error) {
		if last != nil {
			after = last.Slug
		}
		return queryInto(ctx, room, l.db, text, scanStore, after)
	})
	return func(yield func(versionlog.Store, error) bool) {
		for row, err := range rows {
			if err != nil {
				err = fmt.Errorf("list stores: %w", err)
			}
			if !yield(row.Store, err) {
				return
			}
		}
	}
}

// changeStores makes a change to a store, which change returns with the state that
// it is in then.
func (l *Log) changeStores(ctx context.Context, what string, change func(context.Context, *writer) (*storeRow, tipState, error)) error {
	if l.writer == nil {
		return fmt.Errorf("%s: %w", what, versionlog.ErrReadOnly)
	}
	var s *storeRow
	var state tipState
	err := l.writer.transaction(ctx, func(ctx context.Context) (err error) {
		s, state, err = change(ctx, l.writer)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	l.tips.note(s.num, knownTip{storeID: s.ID, seq: s.tip.Seq, digest: s.tip.Digest, state: state})
	l.changes.touch()
	return nil
}
