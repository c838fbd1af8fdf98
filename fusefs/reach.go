package fusefs

import (
	"context"
	"errors"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/versionlog"
)

// reach makes sure that the tree is right about a name in a directory, while
// the store's heads still load, too. Every request that looks at a name calls
// it first, without a lock.
func (fs *fileSystem) reach(ctx context.Context, dirID uint64, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.OK // the request itself refuses it
	}
	fs.mu.RLock()
	dir := fs.node(dirID)
	if !dir.loadsLocked() {
		fs.mu.RUnlock()
		return fuse.OK
	}
	s, n := dir.store, dir.children[canonical]
	path, ok := dir.childPath(canonical)
	doubtful := s.loading.doubtful[n]
	known := !ok || n != nil && !doubtful || n == nil && s.coversLocked(dir, path)
	fs.mu.RUnlock()
	switch {
	case known || memory.CheckPath(path) != nil:
		return fuse.OK
	case doubtful:
		err = s.list(ctx, n)
	default:
		err = s.ask(ctx, path)
	}
	if err != nil {
		return s.fail("look up", path, err)
	}
	return fuse.OK
}

// loadsLocked reports whether n is a directory whose store's heads still load.
func (n *node) loadsLocked() bool {
	return n != nil && n.isDir() && n.store != nil && !n.store.loading.done
}

// reachAll makes sure that the tree has everything that is in a directory.
func (fs *fileSystem) reachAll(ctx context.Context, dirID uint64) fuse.Status {
	fs.mu.RLock()
	dir := fs.node(dirID)
	if !dir.loadsLocked() {
		fs.mu.RUnlock()
		return fuse.OK
	}
	s := dir.store
	unsure := []*node{dir}
	for _, c := range dir.children {
		if s.loading.doubtful[c] {
			unsure = append(unsure, c)
		}
	}
	fs.mu.RUnlock()
	for _, n := range unsure {
		if err := s.list(ctx, n); err != nil {
			return s.fail("list", fs.where(n), err)
		}
	}
	return fuse.OK
}

// reachContent is reach for a name and, should it be a directory's, what is
// directly in it; so that the tree knows whether it holds memories.
func (fs *fileSystem) reachContent(ctx context.Context, dirID uint64, name string) fuse.Status {
	n, status := fs.reachNode(ctx, dirID, name)
	if n == nil {
		return status
	}
	return fs.reachAll(ctx, n.id)
}

// reachNode is reach, and returns what has the name, or nil.
func (fs *fileSystem) reachNode(ctx context.Context, dirID uint64, name string) (*node, fuse.Status) {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return nil, fuse.OK
	}
	if status := fs.reach(ctx, dirID, canonical); !status.Ok() {
		return nil, status
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	dir := fs.node(dirID)
	if dir == nil || !dir.isDir() {
		return nil, fuse.OK
	}
	return dir.children[canonical], fuse.OK
}

// ask asks the log what is at a path: a memory, or a directory.
func (s *store) ask(ctx context.Context, path string) error {
	return s.share(ctx, "ask "+path, func() error {
		for {
			v, err := s.memory.Head(s.fs.ctx, path)
			if errors.Is(err, versionlog.ErrNotFound) {
				if v, err = s.memory.Dir(s.fs.ctx, path); err == nil && v.ID == "" {
					v, err = s.firstIn(path)
				}
			}
			if err != nil || s.answered(path, v) {
				return err
			}
		}
	})
}

// share lets requests that want to know the same of the log at one time ask it once. One
// whose ctx ends leaves that to the others.
func (s *store) share(ctx context.Context, what string, ask func() error) error {
	do := func() error {
		_, err, _ := s.flights.Do(what, func() (any, error) { return nil, ask() })
		return err
	}
	if ctx == s.fs.ctx { // nobody can leave
		return do()
	}
	ended := make(chan error, 1)
	s.fs.tasks.Go(func() { ended <- do() })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// firstIn returns something that is in a directory, as far as the log has it: one is
// enough to know that there is a directory.
func (s *store) firstIn(path string) (v versionlog.Version, err error) {
	for v, err = range s.memory.Entries(s.fs.ctx, path) {
		break
	}
	return v, err
}

// answered brings what the log has at a path, or as an example of what is below
// it, into the tree. It returns false when the example has gone meanwhile, which
// says nothing about the directory.
func (s *store) answered(path string, v versionlog.Version) bool {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if v.ID != "" && !s.learnLocked(v) && v.Path != path {
		return false
	}
	if !s.loading.done && len(s.loading.asked) < maxAsked {
		s.loading.asked[path] = true
	}
	return true
}

// list brings what is directly in a directory into the tree.
func (s *store) list(ctx context.Context, dir *node) error {
	s.fs.mu.RLock()
	path, _ := dir.path()
	known, doubtful := s.knowsLocked(dir), s.loading.doubtful[dir]
	s.fs.mu.RUnlock()
	if known && doubtful {
		s.fs.mu.Lock()
		defer s.fs.mu.Unlock()
		s.completedLocked(dir)
	}
	if known {
		return nil
	}
	return s.share(ctx, "list "+path, func() error {
		prefix := path
		if prefix == "" {
			prefix = "/"
		}
		for again := true; again; { // a memory that has gone meanwhile may have stood for a directory
			gone, err := s.learnAll(s.memory.Entries(s.fs.ctx, prefix), func(string) {})
			if err != nil {
				return err
			}
			again = slices.ContainsFunc(gone, func(of string) bool {
				dir, _ := split(of)
				return dir != path
			})
		}
		s.fs.mu.Lock()
		defer s.fs.mu.Unlock()
		if n := s.findDirLocked(path); n != nil {
			s.completedLocked(n)
		}
		return nil
	})
}

// completedLocked notes that the tree has everything that is in dir.
func (s *store) completedLocked(dir *node) {
	dir.complete = true
	delete(s.loading.doubtful, dir)
	s.pruneLocked(dir)
}

// findDirLocked returns the directory at a path ("" is the root), or nil.
func (s *store) findDirLocked(path string) *node {
	n := s.root
	if path != "" {
		n = s.find(path)
	}
	if n == nil || !n.isDir() {
		return nil
	}
	return n
}
