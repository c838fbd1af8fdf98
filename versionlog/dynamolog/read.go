package dynamolog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"mneme/versionlog"
)

// Tip returns the end of a store's history. It costs one strongly consistent
// GetItem.
func (l *Log) Tip(ctx context.Context, storeID string) (versionlog.Tip, error) {
	m, err := l.end(ctx, storeID)
	if err != nil {
		return versionlog.Tip{}, err
	}
	return m.tip, nil
}

// Head returns the live version of a path. It costs one BatchGetItem of two
// rows, strongly consistent.
func (l *Log) Head(ctx context.Context, storeID, path string) (v versionlog.Version, err error) {
	err = call(ctx, func(ctx context.Context) error {
		_, found, err := l.withMeta(ctx, storeID, path)
		if err == nil && found == nil {
			err = noMemory(storeID, path)
		}
		if err != nil {
			return err
		}
		v, err = versionOf(found)
		return err
	})
	return v, err
}

func noMemory(storeID, path string) error {
	return fmt.Errorf("store %s: %s: %w", storeID, path, versionlog.ErrNotFound)
}

// withMeta returns the META row, and the row of a path, nil when there is none. ErrNotFound
// when there is no such store: rows of one that is being deleted do not count.
func (l *Log) withMeta(ctx context.Context, storeID, sort string) (m *meta, there item, err error) {
	if !isStoreID(storeID) {
		return nil, nil, notFound(storeID)
	}
	metaRef, wanted := ref{storeID, metaSort}, ref{storeID, sort}
	refs := []ref{metaRef}
	if len(sort) > 1 && len(sort) <= maxPath {
		refs = append(refs, wanted)
	}
	found, err := l.table.getAll(ctx, refs)
	if err == nil && found[metaRef] == nil {
		err = notFound(storeID)
	}
	if err == nil {
		m, err = metaOf(found[metaRef])
	}
	return m, found[wanted], err
}

// Held reports whether something is below a path, or ever was. It costs up to two Queries.
func (l *Log) Held(ctx context.Context, storeID, path string) (held bool, err error) {
	err = call(ctx, func(ctx context.Context) error {
		if _, err := l.table.meta(ctx, storeID); err != nil || !isPath(path) {
			return err
		}
		// The second finds a memory that leaves between the two.
		for _, prefix := range []string{path + "/", leftSort(path + "/")} {
			for i, err := range l.table.below(ctx, storeID, prefix) {
				if err != nil {
					return err
				}
				if sortOf(i) != prefix {
					held = true
					return nil
				}
			}
		}
		return nil
	})
	return held, err
}

// Version returns a version of a store by its id. It costs one GetItem and one
// Query of one row.
func (l *Log) Version(ctx context.Context, storeID, id string) (v versionlog.Version, err error) {
	err = call(ctx, func(ctx context.Context) error {
		missing := fmt.Errorf("store %s: version %s: %w", storeID, id, versionlog.ErrNotFound)
		seq, ordinal, err := versionlog.LocateVersion(id)
		if err != nil {
			return fmt.Errorf("store %s: %w: %w", storeID, versionlog.ErrNotFound, err)
		}
		m, err := l.table.meta(ctx, storeID)
		if err != nil {
			return err
		}
		if seq == 0 || seq > m.tip.Seq {
			return missing
		}
		c, err := l.commitAt(ctx, storeID, seq)
		if err != nil {
			return err
		}
		if ordinal >= len(c.Versions) || c.Versions[ordinal].ID != id {
			return missing
		}
		hide, err := l.unerased(ctx, m)
		v = hide.version(c.Versions[ordinal])
		return err
	})
	return v, err
}

// Heads yields the live versions at and below prefix in the order of their
// paths: of the whole store from memory when the Log knows it, else a Query per
// page of up to 1,000 rows or 1 MB.
func (l *Log) Heads(ctx context.Context, storeID, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		if prefix == "/" && after == "" {
			l.allHeads(ctx, storeID, yield)
			return
		}
		at, err := l.Head(ctx, storeID, prefix)
		switch {
		case err == nil:
			if prefix > after {
				yield(at, nil) // and nothing below
			}
			return
		case errors.Is(err, versionlog.ErrNotFound):
			if err = call(ctx, func(ctx context.Context) error { _, err := l.table.meta(ctx, storeID); return err }); err == nil {
				break
			}
			fallthrough
		default:
			yield(versionlog.Version{}, err)
			return
		}
		if len(prefix) < maxPath {
			l.yieldVersions(ctx, l.table.belowAfter(ctx, storeID, strings.TrimSuffix(prefix, "/")+"/", after), yield)
		}
	}
}

// yieldVersions yields the versions of rows and reports whether it got to their
// end.
func (l *Log) yieldVersions(ctx context.Context, rows iter.Seq2[item, error], yield func(versionlog.Version, error) bool) bool {
	for i, err := range rows {
		var v versionlog.Version
		if err == nil {
			v, err = versionOf(i)
		}
		if err != nil {
			yield(v, walkError(ctx, err))
			return false
		}
		if !yield(v, nil) {
			return false
		}
	}
	return true
}

// allHeads yields all heads, and has the view learn them.
func (l *Log) allHeads(ctx context.Context, storeID string, yield func(versionlog.Version, error) bool) {
	s := l.store(storeID)
	err := call(ctx, s.resume)
	if err == nil {
		err = call(ctx, s.catchUp)
	}
	if err != nil {
		yield(versionlog.Version{}, err)
		return
	}
	s.mu.Lock()
	v := s.view
	if v == nil { // deleted just now
		s.mu.Unlock()
		yield(versionlog.Version{}, notFound(storeID))
		return
	}
	if v.complete {
		heads := v.all()
		s.mu.Unlock()
		for _, head := range heads {
			if !yield(*head, nil) {
				return
			}
		}
		return
	}
	w := v.beginWalk()
	s.mu.Unlock()
	all := l.yieldVersions(ctx, l.table.below(ctx, storeID, "/"), func(head versionlog.Version, err error) bool {
		if err == nil {
			s.mu.Lock()
			v.learn(head.Path, &head, w.began)
			if len(v.known) > v.bounds.heads { // too many to know all of them
				v.trim()
			}
			s.mu.Unlock()
		}
		return yield(head, err)
	})
	s.mu.Lock()
	v.endWalk(w, all)
	known := v.complete
	s.mu.Unlock()
	if known {
		s.log.work.Go(s.saveSnapshot)
	}
}

// all returns the heads of a complete view in the order of their paths.
func (v *view) all() []*versionlog.Version {
	heads := make([]*versionlog.Version, 0, len(v.known))
	for _, f := range v.known {
		heads = append(heads, f.version)
	}
	slices.SortFunc(heads, func(a, b *versionlog.Version) int { return cmp.Compare(a.Path, b.Path) })
	return heads
}

// firstBelow returns the first versions below a path.
func (l *Log) firstBelow(ctx context.Context, storeID, path string, n int) (siblings, error) {
	if len(path) >= maxPath {
		return siblings{all: true}, nil
	}
	b := startingWith(storeID, path+"/")
	b.limit = int32(n + 1) // one more for the end of the range
	found := siblings{}
	for i, err := range l.table.rows(ctx, b) {
		if err != nil {
			return found, err
		}
		if !isBelow(sortOf(i), path) {
			continue
		}
		if len(found.versions) == n {
			return found, nil
		}
		v, err := versionOf(i)
		if err != nil {
			return found, err
		}
		found.versions = append(found.versions, &v)
	}
	found.all = true
	return found, nil
}

// firstChildren is how many rows the first Query for a directory reads; each
// further one of the directory's own memories reads twice as many.
const firstChildren = 64

// Children yields what lies directly in a directory. Wherever a page ends within
// a subdirectory, the next begins behind it.
func (l *Log) Children(ctx context.Context, storeID, dir string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		err := call(ctx, func(ctx context.Context) error { _, err := l.table.meta(ctx, storeID); return err })
		if err != nil || len(dir) >= maxPath {
			if err != nil {
				yield(versionlog.Version{}, err)
			}
			return
		}
		below := strings.TrimSuffix(dir, "/") + "/"
		b := startingWith(storeID, below)
		b.limit = min(firstChildren, pageLimit)
		var start item
		subdirectory := "" // in which the last row lies, with a slash at its end
		for {
			rows, next, err := l.table.walkPage(ctx, b, start)
			if err != nil {
				yield(versionlog.Version{}, walkError(ctx, err))
				return
			}
			for _, i := range rows {
				path := sortOf(i)
				if !strings.HasPrefix(path, below) || path == below || subdirectory != "" && strings.HasPrefix(path, subdirectory) {
					continue
				}
				subdirectory = ""
				if name, _, deeper := strings.Cut(path[len(below):], "/"); deeper {
					subdirectory = below + name + "/"
				}
				v, err := versionOf(i)
				if !yield(v, err) || err != nil {
					return
				}
			}
			switch {
			case next == nil:
				return
			case subdirectory != "":
				b.from, start = subdirectory[:len(subdirectory)-1]+"0", nil
			default:
				start, b.limit = next, min(2*b.limit, pageLimit)
			}
		}
	}
}
