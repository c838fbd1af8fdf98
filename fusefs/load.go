package fusefs

import (
	"context"
	"iter"
	"strings"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// The heads of a store load while it is in use already. The rule that makes
// this sound: whatever is read from the log was read after the mount knew its
// first tip, and the follower brings every commit above that tip. So once a
// path has been read, in whatever way, the tree stays right about it, if only
// nothing older ever replaces something newer. That is what sequence numbers
// decide, and, for what is gone, store.gone.

// loading is what a store knows of its heads. Guarded by fileSystem.mu.
type loading struct {
	done     bool            // all are in the tree; the rest is empty
	cursor   string          // the walk has come to this path
	asked    map[string]bool // names the log was asked for
	doubtful map[*node]bool  // directories that look empty, but there may be more in them
	err      error           // why the walk has come to a halt
}

const (
	// maxAsked bounds the names that are remembered to have been asked for.
	maxAsked = 1 << 17
	// learnBatch is how many heads enter the tree under one lock.
	learnBatch = 256
	// belowAll sorts behind everything that lies below a directory's path.
	belowAll = "/\xff"
)

// load fills the tree with the store's heads, until ctx ends: then it reports false. When
// the log fails it tries again, at growing intervals.
func (t *tree) load(ctx context.Context) (all bool) {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	for pause := shortest; ; pause = min(2*pause, longest) {
		err := t.walk(ctx)
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

// loadedLocked reports whether all heads are in the tree, and why not if the log has failed.
func (t *tree) loadedLocked() (all bool, err error) { return t.loading.done, t.loading.err }

// isLoadedLocked reports whether all heads are in the tree.
func (t *tree) isLoadedLocked() bool { return t.loading.done }

// walk brings all heads into the tree, page by page.
func (t *tree) walk(ctx context.Context) error {
	_, err := t.learnAll(t.store.Tree(ctx, "/"), func(path string) {
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
		t.pruneLocked(dir)
	}
	t.forgetGoneLocked()
	return nil
}

// learnAll brings heads into the tree, and returns the paths of those that had gone
// by then. After each batch it calls reached, under the lock, with the path of the
// last.
func (t *tree) learnAll(heads iter.Seq2[versionlog.Version, error], reached func(path string)) (gone []string, err error) {
	batch := make([]versionlog.Version, 0, learnBatch)
	flush := func() {
		if len(batch) == 0 {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, v := range batch {
			if !t.learnLocked(v) {
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
		if batch = append(batch, v); len(batch) == learnBatch {
			flush()
		}
	}
	return gone, nil
}

// learnLocked brings a head that was read from the log into the tree, unless the tree
// knows better, by a commit that was followed meanwhile; it returns false when by
// that there is nothing at the path. The kernel is told only where it may have
// heard that there is nothing.
func (t *tree) learnLocked(v versionlog.Version) bool {
	if t.loading.done {
		return true // once all heads are here, the follower alone brings what is new
	}
	if v.IsDir() {
		return t.learnDirLocked(v)
	}
	if t.overtakenLocked(v) {
		return t.find(v.Path) != nil
	}
	if v.Seq > t.applied && t.session.Made(&v) {
		return true // this mount's own, which the request brings that makes it, or the follower
	}
	if t.find(v.Path) != nil || t.findHidden(v.Path) != nil {
		t.placeLocked(v)
		return true
	}
	n := t.root
	for end := range segmentEnds(v.Path) {
		path := v.Path[:end]
		_, name := split(path)
		dir := n
		if n = dir.children[name]; n != nil && !n.isDir() { // in the way; place removes it
			t.placeLocked(v)
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
	n.setHeadLocked(memory.NewHead(&v), v.Spelling)
	t.spellDirsLocked(n.parent, &v)
	t.session.Came(v.Path)
	return true
}

// segmentEnds yields where each name of a path ends.
func segmentEnds(path string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && !yield(i) {
				return
			}
		}
		yield(len(path))
	}
}

// newChildLocked makes the node of a path in dir, of which the log has told.
func (t *tree) newChildLocked(dir *node, path string, mode uint32, at time.Time) *node {
	n := t.newNode(mode, at)
	known := t.coversLocked(dir, path)
	// In a directory that is new since its name was known to be free, nothing
	// is but what the follower brings.
	if n.isDir() {
		n.complete = known
		n.marker = t.takeMarkerLocked(path)
	}
	_, name := split(path)
	t.attachLocked(dir, name, n)
	if known {
		dir.touchLocked(at)
		t.told.NameLocked(dir, name, nil)
	} else if at.After(dir.mtime) {
		dir.mtime, dir.ctime = at, at // which the kernel does not keep yet
		dir.changedLocked()
	}
	return n
}

// overtakenLocked reports whether the tree shows that v is not the head of its path
// any more.
func (t *tree) overtakenLocked(v versionlog.Version) bool {
	if t.gone[v.Path] > v.Seq {
		return true // freed since
	}
	n := t.root
	for name := range strings.SplitSeq(v.Path[1:], "/") {
		if n = n.children[name]; n == nil {
			return false
		}
		if !n.isDir() { // there or above it
			return n.isMemorySince(v.Seq + 1)
		}
	}
	return n.holdsNewerLocked(v.Seq)
}

// holdsNewerLocked reports whether below dir there is a memory of a later commit.
func (n *node) holdsNewerLocked(seq uint64) bool {
	if n.marker > seq {
		return true
	}
	for _, c := range n.hidden {
		if c.head.Seq() > seq {
			return true
		}
	}
	for _, d := range n.hiddenDirs {
		if d.holdsNewerLocked(seq) {
			return true
		}
	}
	for _, c := range n.children {
		if c.isDir() && c.holdsNewerLocked(seq) || c.isMemorySince(seq+1) {
			return true
		}
	}
	return false
}

// coversLocked reports whether the tree is right about a path in dir: when it shows
// nothing there, nothing is there or below.
func (t *tree) coversLocked(dir *node, path string) bool {
	return t.loading.done || dir.complete || t.loading.asked[path] || path+belowAll <= t.loading.cursor
}

// knowsLocked reports whether the tree has everything that is in dir.
func (t *tree) knowsLocked(dir *node) bool {
	if t.loading.done || dir.complete {
		return true
	}
	path, ok := dir.path()
	return !ok || path+belowAll <= t.loading.cursor
}

// noteGoneLocked remembers which paths a commit frees, so that nothing that was read
// before brings them back.
func (t *tree) noteGoneLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if freed := freedBy(v); freed != "" {
			t.gone[freed] = max(t.gone[freed], c.Seq)
		}
	}
	t.forgetGoneLocked()
}

// forgetGoneLocked drops what noteGone no longer has to remember.
func (t *tree) forgetGoneLocked() {
	if !t.loading.done {
		return
	}
	for path, seq := range t.gone {
		if seq <= t.applied {
			delete(t.gone, path)
		}
	}
}

// doubtLocked notes that a directory looks empty of which the tree does not know
// everything, and finds out.
func (t *tree) doubtLocked(dir *node) {
	if t.loading.doubtful[dir] {
		return
	}
	t.loading.doubtful[dir] = true
	t.begin(func() { _ = t.list(t.life, dir) }) // the walk will get there, too
}

// freedBy returns the path at which there is no memory after v, or "".
func freedBy(v versionlog.Version) string {
	switch v.Op {
	case versionlog.OpDeleted:
		return v.Path
	case versionlog.OpRenamed:
		return v.From
	}
	return ""
}

// lacksLocked reports whether the kernel will be told when dir, which does not have a
// name, gets it.
func (n *node) lacksLocked(name string) bool {
	if n.tree == nil {
		return true
	}
	path, ok := n.childPath(name)
	return ok && n.tree.coversLocked(n, path)
}
