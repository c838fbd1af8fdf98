package sqlitelog

import (
	"context"
	"fmt"
	"time"

	"mneme/versionlog"
)

// CreateStore adds a store.
func (l *Log) CreateStore(ctx context.Context, s versionlog.Store) error {
	if s.ID == "" || s.Slug == "" {
		return fmt.Errorf("create store %q: %w: id and slug must be set", s.Slug, versionlog.ErrInvalid)
	}
	return l.changeStores(ctx, "create store "+s.Slug, func(ctx context.Context, w *writer) (*storeRow, tipState, error) {
		err := w.run(insertStore, s.ID, s.Slug, s.Name, s.Description, s.Limits.MaxMemoryBytes, string(s.Limits.Content),
			microsOf(s.CreatedAt), microsOf(s.ArchivedAt), s.Quota.Bytes, s.Quota.Memories, s.Quota.PerHour)
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
	return s.Store, err
}

// StoreNamed returns the store of a slug.
func (l *Log) StoreNamed(ctx context.Context, slug string) (versionlog.Store, error) {
	s, err := queryOne(ctx, l.db, readStores(l.stores.format)+`WHERE slug = ?`, scanStore, slug)
	if err != nil {
		return s.Store, fmt.Errorf("store %s: %w", slug, err)
	}
	return s.Store, nil
}

// Stores returns all stores, ordered by slug.
func (l *Log) Stores(ctx context.Context) ([]versionlog.Store, error) {
	rows, err := queryAll(ctx, l.db, readStores(l.stores.format)+`ORDER BY slug`, scanStore)
	if err != nil {
		return nil, fmt.Errorf("list stores: %w", err)
	}
	stores := make([]versionlog.Store, len(rows))
	for i, row := range rows {
		stores[i] = row.Store
	}
	return stores, nil
}

// UpdateStore changes what a store is for and may hold.
func (l *Log) UpdateStore(ctx context.Context, id string, u versionlog.StoreUpdate) (updated versionlog.Store, err error) {
	err = l.changeStores(ctx, "update store "+id, func(ctx context.Context, w *writer) (*storeRow, tipState, error) {
		s, err := queryOne(ctx, w, storeByID, scanStore, id)
		if err != nil {
			return nil, tipInUse, err
		}
		u.Apply(&s.Store)
		updated = s.Store
		return &s, tipInUse, w.run(updateStore, s.Description, s.Limits.MaxMemoryBytes,
			s.Quota.Bytes, s.Quota.Memories, s.Quota.PerHour, s.num)
	})
	return updated, err
}

// ArchiveStore makes a store refuse commits other than removals.
func (l *Log) ArchiveStore(ctx context.Context, id string, at time.Time) error {
	return l.changeStores(ctx, "archive store "+id, func(ctx context.Context, w *writer) (*storeRow, tipState, error) {
		s, err := queryOne(ctx, w, storeByID, scanStore, id)
		if err != nil {
			return nil, tipArchived, err
		}
		return &s, tipArchived, w.run(setArchived, microsOf(at), s.num)
	})
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
