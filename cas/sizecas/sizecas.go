// Package sizecas joins two blob stores into one: small blobs are put into the
// one, large ones into the other.
package sizecas

import (
	"context"
	"errors"
	"iter"

	"mneme/cas"
)

var (
	_ cas.Store   = (*Store)(nil)
	_ cas.Lister  = (*Store)(nil)
	_ cas.Deleter = (*Store)(nil)

	_ cas.BatchGetter = (*Store)(nil)
	_ cas.Forgetter   = (*Store)(nil)
)

// Backend is what each of the two must be able to do.
type Backend interface {
	cas.Store
	cas.Lister
	cas.Deleter
}

// Store is a cas.Store over two others. A blob is looked for in both, whatever
// its size, so blobs put when the bound was another one are found.
type Store struct {
	small, large Backend
	limit        int
}

// New returns a store that puts blobs of at most limit bytes into small and all
// others into large. It owns neither.
func New(small Backend, limit int, large Backend) *Store {
	return &Store{small: small, large: large, limit: limit}
}

// Put implements cas.Store.
func (s *Store) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	if len(data) <= s.limit {
		return s.small.Put(ctx, data)
	}
	return s.large.Put(ctx, data)
}

// Get implements cas.Store. A copy that is damaged in one store is no matter
// while the other has a good one. One that moves from large to small meanwhile is
// found.
func (s *Store) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := s.small.Get(ctx, d)
	if err == nil || !errors.Is(err, cas.ErrNotFound) && !errors.Is(err, cas.ErrCorrupt) {
		return data, err
	}
	data, second := s.large.Get(ctx, d)
	if errors.Is(second, cas.ErrNotFound) {
		return s.small.Get(ctx, d)
	}
	return data, second
}

// BatchSize implements cas.BatchGetter: it is that of the store of small blobs.
func (s *Store) BatchSize() int { return cas.BatchSize(s.small) }

// GetBatch implements cas.BatchGetter. It reads small blobs only.
func (s *Store) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	return cas.GetBatch(ctx, s.small, ds)
}

// Has implements cas.Store.
func (s *Store) Has(ctx context.Context, d cas.Digest) (bool, error) {
	found, err := s.small.Has(ctx, d)
	if found || err != nil {
		return found, err
	}
	if found, err = s.large.Has(ctx, d); found || err != nil {
		return found, err
	}
	return s.small.Has(ctx, d)
}

// Forget implements cas.Forgetter.
func (s *Store) Forget() error { return errors.Join(cas.Forget(s.small), cas.Forget(s.large)) }

// List implements cas.Lister.
func (s *Store) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	return func(yield func(cas.Digest, error) bool) {
		for d, err := range s.small.List(ctx) {
			if !yield(d, err) || err != nil {
				return
			}
		}
		for d, err := range s.large.List(ctx) {
			var seen bool
			if err == nil {
				seen, err = s.small.Has(ctx, d)
			}
			if seen && err == nil {
				continue
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Delete implements cas.Deleter. A blob that one of the stores could not give
// up is still there. The small one comes first, since it may keep others against a
// blob that the large one has; and last, if a blob has moved there meanwhile.
func (s *Store) Delete(ctx context.Context, d cas.Digest) error {
	err := errors.Join(s.small.Delete(ctx, d), s.large.Delete(ctx, d))
	moved, hasErr := s.small.Has(ctx, d)
	if moved {
		return errors.Join(err, s.small.Delete(ctx, d))
	}
	return errors.Join(err, hasErr)
}
