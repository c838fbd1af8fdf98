package snapshot

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"mneme/versionlog"
)

// State returns the store as it was right after the snapshot's commit. It reads the pages
// that it needs. Whether that commit is in the history, the caller knows; At makes sure.
func (s *Snapshot) State() versionlog.State { return versionlog.Sorted(s.from) }

// At returns the store as it was after a commit, seq, that is not before the snapshot's.
// commits and errors are those of Fold.
func (s *Snapshot) At(seq uint64, commits iter.Seq2[*versionlog.Commit, error]) (versionlog.Sorted, error) {
	changed := map[string]*versionlog.Version{}
	_, err := s.follow(seq, commits, func(c *versionlog.Commit) {
		for path, v := range c.Heads() {
			changed[path] = v
		}
	})
	if err != nil {
		return nil, err
	}
	later := make([]since, 0, len(changed))
	for path, v := range changed {
		later = append(later, since{path, v})
	}
	slices.SortFunc(later, func(a, b since) int { return strings.Compare(a.path, b.path) })
	return func(ctx context.Context, path string) iter.Seq2[versionlog.Version, error] {
		return overlay(s.from(ctx, path), notBefore(later, path))
	}, nil
}

// since is what lives at a path since the snapshot: nil for nothing.
type since struct {
	path string
	head *versionlog.Version
}

func (s since) key() string { return s.path }

// overlay yields the versions of a state with what has changed since.
func overlay(state iter.Seq2[versionlog.Version, error], later []since) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		later := later
		next := func(end string) bool { // yields what comes before a path; "" is none
			for ; len(later) > 0 && (end == "" || later[0].path < end); later = later[1:] {
				if head := later[0].head; head != nil && !yield(*head, nil) {
					return false
				}
			}
			return true
		}
		for v, err := range state {
			if err != nil {
				yield(v, err)
				return
			}
			if !next(v.Path) {
				return
			}
			if len(later) > 0 && later[0].path == v.Path {
				continue
			}
			if !yield(v, nil) {
				return
			}
		}
		next("")
	}
}

// from yields the heads at a path and behind.
func (s *Snapshot) from(ctx context.Context, path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for h, err := range entries(&s.heads, path, func(i int) ([]head, error) { return s.headsOf(ctx, i) }) {
			if !yield(versionlog.Version(h), err) {
				return
			}
		}
	}
}

// headsOf returns the heads of a page, and reads ahead for a caller that walks: as many pages at
// once as there are in memory right before it.
func (s *Snapshot) headsOf(ctx context.Context, number int) (heads []head, err error) {
	if heads, ok := s.cache.get(number); ok {
		return heads, nil
	}
	pages := max(1, min(s.cache.before(number), readAhead, len(s.heads.Pages)-number))
	next := number
	for page := range ahead(pages, func(i int) result {
		heads, err := read(ctx, s.source, &s.heads, number+i, decodeHead)
		return result{heads, err}
	}) {
		if next == number {
			heads, err = page.heads, page.err
		}
		if page.err == nil { // else it is read again when it is wanted
			s.cache.put(next, page.heads)
		}
		next++
	}
	if err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	return heads, nil
}
