// Package memcas keeps blobs in the process's memory, for tests and for stores
// that need not outlive it.
package memcas

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"mneme/cas"
)

var (
	_ cas.Store   = (*Store)(nil)
	_ cas.Lister  = (*Store)(nil)
	_ cas.Deleter = (*Store)(nil)
)

// Store is a cas.Store in memory. It keeps every promise of the contract except
// durability.
type Store struct {
	mu    sync.RWMutex // guards blobs
	blobs map[cas.Digest][]byte
}

// New returns an empty store.
func New() *Store {
	return &Store{blobs: make(map[cas.Digest][]byte)}
}

// Put implements cas.Store.
func (s *Store) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	if err := ctx.Err(); err != nil {
		return cas.Digest{}, fmt.Errorf("put: %w", err)
	}
	own := bytes.Clone(data)
	d := cas.Sum(own)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[d] = own
	return d, nil
}

// Get implements cas.Store.
func (s *Store) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get %v: %w", d, err)
	}
	s.mu.RLock()
	data, ok := s.blobs[d]
	s.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("get %v: %w", d, cas.ErrNotFound)
	}
	if cas.Sum(data) != d {
		return nil, fmt.Errorf("get %v: %w", d, cas.ErrCorrupt)
	}
	return data, nil
}

// Has implements cas.Store.
func (s *Store) Has(ctx context.Context, d cas.Digest) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("has %v: %w", d, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.blobs[d]
	return ok, nil
}

// List implements cas.Lister. It yields the blobs of one moment.
func (s *Store) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	return func(yield func(cas.Digest, error) bool) {
		s.mu.RLock()
		digests := slices.Collect(maps.Keys(s.blobs))
		s.mu.RUnlock()
		err := ctx.Err()
		for i := 0; i < len(digests) && err == nil; i++ {
			if !yield(digests[i], nil) {
				return
			}
			err = ctx.Err()
		}
		if err != nil {
			yield(cas.Digest{}, fmt.Errorf("list: %w", err))
		}
	}
}

// Delete implements cas.Deleter.
func (s *Store) Delete(ctx context.Context, d cas.Digest) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %v: %w", d, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blobs, d)
	return nil
}

// Corrupt makes data the stored bytes of d, whatever they hash to. It is how a
// test damages a blob.
func (s *Store) Corrupt(d cas.Digest, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[d] = bytes.Clone(data)
}
