// Package memlog keeps version logs in memory, for tests of packages that are built on a
// versionlog.Log. Nothing survives the process.
package memlog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"mneme/versionlog"
)

// Options adjust a Log.
type Options struct {
	Now func() time.Time // the clock that stamps commits; nil is time.Now
}

// Log is a versionlog.Log in memory.
type Log struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows
	stores  map[string]*store
	changed chan struct{} // closed and replaced at every change
}

type store struct {
	versionlog.Store
	commits  []*versionlog.Commit
	newest   versionlog.Tip // except ArchivedAt
	byKey    map[string]*versionlog.Commit
	last     map[string]place // by path
	memories map[string][]versionlog.Version
}

// place is the last version that took place at a path.
type place struct {
	version versionlog.Version
	live    bool
}

var _ versionlog.Log = (*Log)(nil)

// New returns an empty log.
func New(opts *Options) *Log {
	l := &Log{now: time.Now, stores: map[string]*store{}, changed: make(chan struct{})}
	if opts != nil && opts.Now != nil {
		l.now = opts.Now
	}
	return l
}

// Close does nothing.
func (l *Log) Close() error { return nil }

// locked calls fn while nothing else runs, unless ctx has ended.
func (l *Log) locked(ctx context.Context, fn func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return fn()
}

func (l *Log) withStore(ctx context.Context, id string, fn func(*store) error) error {
	return l.locked(ctx, func() error {
		s := l.stores[id]
		if s == nil {
			return fmt.Errorf("store %s: %w", id, versionlog.ErrNotFound)
		}
		return fn(s)
	})
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// CreateStore adds a store.
func (l *Log) CreateStore(ctx context.Context, s versionlog.Store) error {
	return l.locked(ctx, func() error {
		if s.ID == "" || s.Slug == "" {
			return fmt.Errorf("create store %q: %w: id and slug must be set", s.Slug, versionlog.ErrInvalid)
		}
		for _, other := range l.stores {
			if other.ID == s.ID || other.Slug == s.Slug {
				return fmt.Errorf("create store %s: %w", s.Slug, versionlog.ErrExists)
			}
		}
		s = s.Clone()
		s.Epoch = max(s.Epoch, 1)
		l.stores[s.ID] = &store{Store: s, byKey: map[string]*versionlog.Commit{},
			last: map[string]place{}, memories: map[string][]versionlog.Version{}}
		return nil
	})
}

// Store returns the store of an id.
func (l *Log) Store(ctx context.Context, id string) (found versionlog.Store, err error) {
	err = l.withStore(ctx, id, func(s *store) error {
		found = s.Store.Clone()
		return nil
	})
	return found, err
}

// StoreNamed returns the store of a slug.
func (l *Log) StoreNamed(ctx context.Context, slug string) (found versionlog.Store, err error) {
	err = l.locked(ctx, func() error {
		for _, s := range l.stores {
			if s.Slug == slug {
				found = s.Store.Clone()
				return nil
			}
		}
		return fmt.Errorf("store %s: %w", slug, versionlog.ErrNotFound)
	})
	return found, err
}

// Stores yields the stores behind a slug, ordered by slug.
func (l *Log) Stores(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	return func(yield func(versionlog.Store, error) bool) {
		var found []versionlog.Store
		err := l.locked(ctx, func() error {
			for _, s := range l.stores {
				if s.Slug > after {
					found = append(found, s.Store.Clone())
				}
			}
			return nil
		})
		if err != nil {
			yield(versionlog.Store{}, err)
			return
		}
		slices.SortFunc(found, func(a, b versionlog.Store) int { return cmp.Compare(a.Slug, b.Slug) })
		for _, s := range found {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// DeleteStore removes a store with its whole history.
func (l *Log) DeleteStore(ctx context.Context, id string) error {
	return l.withStore(ctx, id, func(*store) error {
		delete(l.stores, id)
		l.wake()
		return nil
	})
}

// Commit appends what p proposes.
func (l *Log) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (c *versionlog.Commit, err error) {
	err = l.withStore(ctx, storeID, func(s *store) (err error) {
		if c = s.byKey[p.Key]; c != nil && p.Became(c) {
			return nil
		}
		if c, err = versionlog.Build(s, s.Store, s.tip(), p, l.now()); err != nil || !c.Changes() {
			return err
		}
		s.Store = s.After(c, p.Finished != nil)
		s.add(c)
		s.erase(c.Event.ErasedVersions())
		l.wake()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *store) add(c *versionlog.Commit) {
	s.commits, s.newest = append(s.commits, c), s.newest.After(c)
	s.byKey[c.Key] = c
	for _, v := range c.Versions {
		if newest, _ := s.Newest(v.MemoryID); newest != nil && s.last[newest.Path].version == *newest {
			s.last[newest.Path] = place{version: *newest} // v may be erased, and not tell that it has left
		}
		s.memories[v.MemoryID] = append(s.memories[v.MemoryID], v)
		if v.Redacted() {
			continue
		}
		if v.Op == versionlog.OpRenamed {
			s.last[v.From] = place{version: v}
		}
		s.last[v.Path] = place{version: v, live: v.Live()}
	}
}

// erase erases versions, and derives again everything that follows from the commits.
func (s *store) erase(ids []string) {
	if len(ids) == 0 {
		return
	}
	commits := s.commits
	s.commits, s.newest = nil, versionlog.Tip{}
	clear(s.byKey)
	clear(s.last)
	clear(s.memories)
	for _, c := range commits {
		for _, id := range ids {
			if seq, _, err := versionlog.LocateVersion(id); err == nil && seq == c.Seq {
				c = c.Erase(id)
			}
		}
		s.add(c)
	}
}

func (s *store) tip() versionlog.Tip {
	tip := s.newest
	tip.ArchivedAt = s.ArchivedAt
	return tip
}

// Head is part of versionlog.View.
func (s *store) Head(path string) (*versionlog.Version, error) {
	at := s.last[path]
	if !at.live {
		return nil, nil
	}
	return &at.version, nil
}

// Below is part of versionlog.View.
func (s *store) Below(path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for other, at := range s.last {
			if at.live && isBelow(other, path) && !yield(at.version, nil) {
				return
			}
		}
	}
}

// Version is part of versionlog.VersionView.
func (s *store) Version(id string) (*versionlog.Version, error) {
	seq, ordinal, err := versionlog.LocateVersion(id)
	if err == nil && seq >= 1 && seq <= uint64(len(s.commits)) {
		versions := s.commits[seq-1].Versions
		if ordinal < len(versions) && versions[ordinal].ID == id {
			return &versions[ordinal], nil
		}
	}
	return nil, nil
}

// Newest is part of versionlog.View.
func (s *store) Newest(memoryID string) (*versionlog.Version, error) {
	versions := s.memories[memoryID]
	if len(versions) == 0 {
		return nil, nil
	}
	return &versions[len(versions)-1], nil
}

func isBelow(path, above string) bool {
	return len(path) > len(above) && path[:len(above)] == above && path[len(above)] == '/'
}
