package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"mneme/versionlog"
)

// maxCatchUp is how many commits a view that does not know all heads catches up with;
// beyond that, it is cheaper to start with an empty view.
const maxCatchUp = 2000

// load makes sure that the store has a view. ErrNotFound.
func (s *store) load(ctx context.Context) error {
	s.mu.Lock()
	loaded := s.view != nil
	s.mu.Unlock()
	if !loaded {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
	}
	return s.count(ctx)
}

// count makes the totals of the view right where a mneme that keeps none has written,
// from all commits; the next one of this mneme keeps them.
func (s *store) count(ctx context.Context) error {
	s.mu.Lock()
	counted := s.view == nil || !s.view.meta.uncounted
	s.mu.Unlock()
	if counted {
		return nil
	}
	var tip versionlog.Tip
	for c, err := range s.log.Commits(ctx, s.id, 0) {
		if err != nil {
			return err
		}
		tip = tip.After(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view
	if v == nil || !v.meta.uncounted {
		return nil
	}
	since, ok := v.since(tip.Seq)
	for _, c := range since {
		tip = tip.After(c)
	}
	if ok && tip.Seq == v.meta.tip.Seq && tip.Digest == v.meta.tip.Digest {
		v.meta.tip.Totals, v.meta.uncounted = tip.Totals, false
	}
	return nil
}

// catchUp brings the view to a state that was current at a moment after the
// call began.
func (s *store) catchUp(ctx context.Context) error {
	m, err := s.readMeta(ctx)
	if errors.Is(err, versionlog.ErrNotFound) {
		s.forget()
	}
	if err != nil {
		return err
	}
	return s.follow(ctx, m)
}

// follow brings the view to a META row at least, by applying the commits in
// between.
func (s *store) follow(ctx context.Context, m *meta) error {
	for attempt := 0; ; attempt++ {
		after, ok := s.reach(m)
		if ok {
			return nil
		}
		// The row of a commit may be seen after META that tells of it.
		if attempt > 5 {
			return s.log.missing(ctx, s.id, after+1)
		}
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		if err := s.readAhead(ctx, after, m.tip.Seq); err != nil {
			return err
		}
	}
}

// reach reports whether the view is at a META row or beyond, and if not, which
// commit it is at. It makes a view when there is none that could get there.
func (s *store) reach(m *meta) (after uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view
	switch {
	case v != nil && v.meta.creation == m.creation && v.meta.tip.Seq >= m.tip.Seq:
	case v != nil && v.meta.creation == m.creation && (m.tip.Seq-v.meta.tip.Seq <= maxCatchUp || v.complete):
		return v.meta.tip.Seq, false
	default:
		s.newViewLocked(m)
		return 0, true
	}
	v.meta.fence = max(v.meta.fence, m.fence)
	if v.meta.tip.Seq == m.tip.Seq && v.meta.erased != m.erased { // it may have what was erased
		s.newViewLocked(m)
		return 0, true
	}
	if v.meta.tip.Seq == m.tip.Seq {
		v.meta.Store, v.meta.tip.ArchivedAt = m.Store, m.ArchivedAt
		v.meta.redacted, v.meta.erased = m.redacted, m.erased
	}
	return 0, true
}

// newViewLocked begins a view at a META row.
func (s *store) newViewLocked(m *meta) {
	if s.parted != nil && s.parted.creation == m.creation {
		s.stopLocked(fmt.Errorf("commit %d does not follow commit %d, %.12s, which was in the table",
			s.parted.tip.Seq+1, s.parted.tip.Seq, s.parted.tip.Digest))
	}
	first := s.view == nil
	s.view = newView(m, s.log.bounds)
	s.sawRedactedLocked(m.redacted)
	if m.erased != m.redacted {
		s.eraseLaterLocked()
	}
	if first {
		s.sweepLater(0)
	}
}

// readAhead applies the commits above after, up to one at least, as far as they
// can be read.
func (s *store) readAhead(ctx context.Context, after, upTo uint64) error {
	// One call reads, and the next one finds the view up to date.
	select {
	case s.catching <- struct{}{}:
		defer func() { <-s.catching }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	if v := s.view; v != nil {
		after = max(after, v.meta.tip.Seq)
	}
	s.mu.Unlock()
	if after >= upTo {
		return nil
	}
	for i, err := range s.log.table.rows(ctx, between{partition: s.id, from: logSort(after + 1), to: logSort(upTo)}) {
		if err != nil {
			return err
		}
		commits, err := commitsOf(i)
		if err != nil {
			return err
		}
		for _, c := range commits {
			if !s.applyForeign(c) {
				return nil // a gap, or another history: the caller looks again
			}
		}
	}
	s.wake()
	return nil
}

// applyForeign adds a commit that was read to the view.
func (s *store) applyForeign(c *versionlog.Commit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view
	if v == nil {
		return false
	}
	if c.Seq > v.meta.tip.Seq {
		s.sweepLater(sweepPause)
	}
	if v.apply(c) {
		if c.Erases() && c.Seq > v.meta.redacted {
			s.view = nil // it may know what was erased, and does not know what remains
			s.sawRedactedLocked(c.Seq)
		}
		return true
	}
	switch {
	case c.Seq != v.meta.tip.Seq+1:
	case c.Prev == v.meta.tip.Digest: // versions of it were erased
		s.view = nil
	default: // a chain that the view is no part of
		s.view, s.parted = nil, &v.meta
	}
	return false
}

// forget drops what is kept of a store that is gone.
func (s *store) forget() {
	s.mu.Lock()
	s.view, s.agreed = nil, false
	s.mu.Unlock()
	s.wake()
}

// fetch reads what the view lacks to judge a proposal.
func (s *store) fetch(ctx context.Context, p *versionlog.Proposal) error {
	for attempt := 0; ; attempt++ {
		s.mu.Lock()
		v := s.view
		var n *needs
		if v != nil {
			if attempt == 0 {
				v.trim()
			}
			n = v.needs(p)
		}
		s.mu.Unlock()
		if n == nil {
			if err := s.catchUp(ctx); err != nil {
				return err
			}
			continue
		}
		if n.none() {
			return nil
		}
		if err := backoff(ctx, max(0, attempt-4)); err != nil {
			return err
		}
		if err := s.read(ctx, v, n); err != nil {
			return err
		}
	}
}

// read reads what is needed and adds it to the view.
func (s *store) read(ctx context.Context, v *view, n *needs) error {
	var refs []ref
	for path := range n.heads {
		refs = append(refs, ref{s.id, path})
	}
	heads, err := s.log.table.getAll(ctx, refs)
	if err != nil {
		return err
	}
	below, err := inParallel(n.below, func(path string, leaving int) (siblings, error) {
		return s.log.firstBelow(ctx, s.id, path, leaving+1)
	})
	if err != nil {
		return err
	}
	versions, err := inParallel(n.versions, func(id string, _ bool) (*versionlog.Version, error) {
		found, err := s.log.Version(ctx, s.id, id)
		if errors.Is(err, versionlog.ErrNotFound) {
			return nil, nil
		}
		return &found, err
	})
	if err != nil {
		return err
	}
	newest := map[string]*versionlog.Version{}
	for id := range n.memories {
		v, err := s.log.Newest(ctx, s.id, id)
		if err == nil {
			newest[id] = &v
		} else if !errors.Is(err, versionlog.ErrNotFound) {
			return err
		} else {
			newest[id] = nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range n.heads {
		var found *versionlog.Version
		if i := heads[ref{s.id, path}]; i != nil {
			version, err := versionOf(i)
			if err != nil {
				return err
			}
			found = &version
		}
		v.learn(path, found, n.began)
	}
	for path, found := range below {
		v.learnBelow(path, found, n.began)
	}
	for id, found := range newest {
		v.learnNewest(id, found, n.began)
	}
	maps.Copy(v.versions, versions)
	return nil
}

// inParallel calls fn for every element, sixteen at a time.
func inParallel[K comparable, V, R any](of map[K]V, fn func(K, V) (R, error)) (map[K]R, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards results and first
		results = make(map[K]R, len(of))
		first   error
		slots   = make(chan struct{}, 16)
	)
	for k, v := range of {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r, err := fn(k, v)
			mu.Lock()
			defer mu.Unlock()
			results[k] = r
			if err != nil && first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return results, first
}
