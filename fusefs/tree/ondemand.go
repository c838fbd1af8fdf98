package tree

import (
	"context"
	"errors"
	"slices"

	"mneme/memory"
	"mneme/versionlog"
)

// Ensure makes sure that the tree is right about a name in a directory, while the
// store's heads still load, too.
func (t *Tree) Ensure(ctx context.Context, dir *Entry, name string) error {
	t.mu.RLock()
	n := dir.children[name]
	path, ok := dir.ChildPathLocked(name)
	doubtful := t.loading.doubtful[n]
	known := t.loading.done || !ok || n != nil && !doubtful || n == nil && t.RightAboutLocked(dir, path)
	t.mu.RUnlock()
	switch {
	case known || memory.CheckPath(path) != nil:
		return nil
	case doubtful:
		return t.list(ctx, n)
	}
	return t.ask(ctx, path)
}

// EnsureAll makes sure that the tree has everything that is in a directory.
func (t *Tree) EnsureAll(ctx context.Context, dir *Entry) error {
	t.mu.RLock()
	toAsk := []*Entry{dir}
	for _, c := range dir.children {
		if t.loading.doubtful[c] {
			toAsk = append(toAsk, c)
		}
	}
	t.mu.RUnlock()
	for _, n := range toAsk {
		if err := t.list(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// LoadingLocked reports whether n is a directory whose store's heads still load.
func (n *Entry) LoadingLocked() bool {
	return n != nil && n.IsDir() && n.tree != nil && !n.tree.loading.done
}

// ask asks the log what is at a path: a memory, or a directory.
func (t *Tree) ask(ctx context.Context, path string) error {
	return t.share(ctx, "ask "+path, func() error {
		for {
			v, err := t.store.Head(t.life, path)
			if errors.Is(err, versionlog.ErrNotFound) {
				if v, err = t.store.Dir(t.life, path); err == nil && v.ID == "" {
					v, err = t.firstIn(path)
				}
			}
			if err != nil || t.answered(path, v) {
				return err
			}
		}
	})
}

// share lets requests that ask the log for the same at one time ask it once. One whose ctx ends
// leaves that to the others.
func (t *Tree) share(ctx context.Context, what string, ask func() error) error {
	do := func() error {
		_, err, _ := t.flights.Do(what, func() (any, error) { return nil, ask() })
		return err
	}
	if ctx == t.life { // no caller can leave
		return do()
	}
	ended := make(chan error, 1)
	t.begin(func() { ended <- do() })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// firstIn returns something that is in a directory, as far as the log has it: one is
// enough to know that there is a directory.
func (t *Tree) firstIn(path string) (v versionlog.Version, err error) {
	for v, err = range t.store.Entries(t.life, path) {
		break
	}
	return v, err
}

// answered brings into the tree the memory that the log has at a path, or as an example of one
// below it. It returns false when the example has gone meanwhile, which says nothing about the
// directory.
func (t *Tree) answered(path string, v versionlog.Version) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.ID != "" && !t.loadHeadLocked(v) && v.Path != path {
		return false
	}
	if !t.loading.done && len(t.loading.asked) < maxAsked {
		t.loading.asked[path] = true
	}
	return true
}

// list brings what is directly in a directory into the tree.
func (t *Tree) list(ctx context.Context, dir *Entry) error {
	t.mu.RLock()
	path, _ := dir.PathLocked()
	known, doubtful := t.AllOfLocked(dir), t.loading.doubtful[dir]
	t.mu.RUnlock()
	if known && doubtful {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.completedLocked(dir)
	}
	if known {
		return nil
	}
	return t.share(ctx, "list "+path, func() error {
		prefix := path
		if prefix == "" {
			prefix = "/"
		}
		for again := true; again; { // a memory that has gone meanwhile may have stood for a directory
			gone, err := t.loadHeads(t.store.Entries(t.life, prefix), func(string) {})
			if err != nil {
				return err
			}
			again = slices.ContainsFunc(gone, func(of string) bool {
				dir, _ := Split(of)
				return dir != path
			})
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if n := t.FindDirLocked(path); n != nil {
			t.completedLocked(n)
		}
		return nil
	})
}

// completedLocked notes that the tree has everything that is in dir.
func (t *Tree) completedLocked(dir *Entry) {
	dir.complete = true
	delete(t.loading.doubtful, dir)
	t.PruneLocked(dir)
}
