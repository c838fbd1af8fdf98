package tree

import (
	"context"
	"iter"
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// The heads of a store load while it is in use already. The rule that makes this sound:
// everything that is read from the log was read after the mount knew its first tip, and the
// follower brings every commit above that tip. So once a path has been read, in whatever way, the
// tree stays right about it, if only nothing older ever replaces something newer. Sequence
// numbers decide that and, for paths that are gone, Tree.freed.

const (
	// maxAsked bounds the names that are remembered to have been asked for.
	maxAsked = 1 << 17
	// loadBatch is how many heads enter the tree under one lock.
	loadBatch = 256
)

// Load fills the tree with the store's heads, until ctx ends: then it reports false. When
// the log fails it tries again, at growing intervals.
func (t *Tree) Load(ctx context.Context) (all bool) {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	for pause := shortest; ; pause = min(2*pause, longest) {
		err := t.Walk(ctx)
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		t.log.Error("loading the heads", "store", t.store.Info().Slug, "err", err)
		t.mu.Lock()
		t.loading.err = err
		t.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// LoadedLocked reports whether all heads are in the tree, and why not if the log has failed.
func (t *Tree) LoadedLocked() (all bool, err error) { return t.loading.done, t.loading.err }

// IsLoadedLocked reports whether all heads are in the tree.
func (t *Tree) IsLoadedLocked() bool { return t.loading.done }

// Walk brings all heads into the tree, page by page.
func (t *Tree) Walk(ctx context.Context) error {
	_, err := t.loadHeads(t.store.Tree(ctx, "/"), func(path string) {
		t.loading.cursor = max(t.loading.cursor, path)
		t.loading.err = nil
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	doubtful := t.loading.doubtful
	t.loading = loading{done: true}
	for dir := range doubtful {
		t.PruneLocked(dir)
	}
	t.forgetFreedLocked()
	return nil
}

// loadHeads brings heads into the tree, and returns the paths of those that had gone in the
// meantime. After each batch it calls reached, under the lock, with the path of the last.
func (t *Tree) loadHeads(heads iter.Seq2[versionlog.Version, error], reached func(path string)) (gone []string, err error) {
	batch := make([]versionlog.Version, 0, loadBatch)
	flush := func() {
		if len(batch) == 0 {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, v := range batch {
			if !t.loadHeadLocked(v) {
				gone = append(gone, v.Path)
			}
		}
		reached(batch[len(batch)-1].Path)
		batch = batch[:0]
	}
	defer flush()
	for v, err := range heads {
		if err != nil {
			return gone, err
		}
		if batch = append(batch, v); len(batch) == loadBatch {
			flush()
		}
	}
	return gone, nil
}

// loadHeadLocked brings a head that was read from the log into the tree, unless the tree
// knows better, by a commit that was followed meanwhile; it returns false when by
// that there is nothing at the path. The kernel is told only where it may have
// heard that there is nothing.
func (t *Tree) loadHeadLocked(v versionlog.Version) bool {
	if t.loading.done {
		return true // once all heads are here, the follower alone brings what is new
	}
	if v.IsDir() {
		return t.loadDirLocked(v)
	}
	if t.outdatedLocked(v) {
		return t.FindLocked(v.Path) != nil
	}
	if v.Seq > t.applied && t.session.Made(&v) {
		return true // this mount's own, which the request brings that makes it, or the follower
	}
	if t.FindLocked(v.Path) != nil || t.FindHiddenLocked(v.Path) != nil {
		t.InstallLocked(v)
		return true
	}
	n := t.root
	for end := range segmentEnds(v.Path) {
		path := v.Path[:end]
		_, name := Split(path)
		dir := n
		if n = dir.children[name]; n != nil && !n.IsDir() { // in the way; InstallLocked removes it
			t.InstallLocked(v)
			return true
		}
		if n == nil {
			mode := t.opts.DirMode(path)
			if path == v.Path {
				t.endHiddenDirLocked(dir, name)
				mode = t.opts.FileMode(&v)
			}
			n = t.newChildLocked(dir, path, mode, v.Time)
		}
	}
	n.SetHeadLocked(memory.NewHead(&v), v.Spelling)
	t.spellDirsLocked(n.parent, &v)
	t.session.Came(v.Path)
	return true
}

// loadDirLocked is loadHeadLocked for a directory.
func (t *Tree) loadDirLocked(v versionlog.Version) bool {
	path := strings.TrimSuffix(v.Path, "/")
	switch {
	case t.freedSinceLocked(&v):
		return t.FindDirLocked(path) != nil
	case v.Seq > t.applied && t.session.Made(&v):
		return true
	}
	t.installDirLocked(v)
	return true
}
