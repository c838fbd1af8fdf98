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

// begin notes where the follower has to begin. What is wrong with the store, or
// with the way to it, is known then.
func (s *store) begin(ctx context.Context) error {
	if err := s.loadPrivate(); err != nil {
		return err
	}
	tip, err := s.tip(ctx)
	if err != nil {
		return err
	}
	s.applied, s.appliedDigest = tip.Seq, tip.Digest
	return nil
}

// load fills the tree with the store's heads, until ctx ends. When the log
// fails it tries again, at growing intervals.
func (s *store) load(ctx context.Context) {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	for pause := shortest; ; pause = min(2*pause, longest) {
		err := s.walk(ctx)
		if err == nil && !s.readOnly() {
			s.tidyPrivate()
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		s.fs.log.Error("loading the heads", "store", s.slug(), "err", err)
		s.fs.mu.Lock()
		s.loading.err = err
		s.fs.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// walk brings all heads into the tree, page by page.
func (s *store) walk(ctx context.Context) error {
	_, err := s.learnAll(s.memory.Tree(ctx, "/"), func(path string) {
		s.loading.cursor = max(s.loading.cursor, path)
		s.loading.err = nil
	})
	if err != nil {
		return err
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	doubtful := s.loading.doubtful
	s.loading = loading{done: true}
	for dir := range doubtful {
		s.pruneLocked(dir)
	}
	s.forgetGoneLocked()
	return nil
}

// learnAll brings heads into the tree, and returns the paths of those that had gone
// by then. After each batch it calls reached, under fs.mu, with the path of the
// last.
func (s *store) learnAll(heads iter.Seq2[versionlog.Version, error], reached func(path string)) (gone []string, err error) {
	batch := make([]versionlog.Version, 0, learnBatch)
	flush := func() {
		if len(batch) == 0 {
			return
		}
		s.fs.mu.Lock()
		defer s.fs.mu.Unlock()
		for _, v := range batch {
			if !s.learnLocked(v) {
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
func (s *store) learnLocked(v versionlog.Version) bool {
	if s.loading.done {
		return true // once all heads are here, the follower alone brings what is new
	}
	if v.IsDir() {
		return s.learnDirLocked(v)
	}
	if s.overtakenLocked(v) {
		return s.find(v.Path) != nil
	}
	if own := s.fs.opts.Session; own != "" && v.Session == own && v.Seq > s.applied {
		return true // this mount's own, which the request brings that makes it, or the follower
	}
	if s.find(v.Path) != nil || s.findHidden(v.Path) != nil {
		s.placeLocked(v)
		return true
	}
	n := s.root
	for end := range segmentEnds(v.Path) {
		path := v.Path[:end]
		_, name := split(path)
		dir := n
		if n = dir.children[name]; n != nil && !n.isDir() { // in the way; place removes it
			s.placeLocked(v)
			return true
		}
		if n == nil {
			mode := s.dirMode(path)
			if path == v.Path {
				s.endHiddenDirLocked(dir, name)
				mode = s.fileMode(&v)
			}
			n = s.newChildLocked(dir, path, mode, v.Time)
		}
	}
	n.setHeadLocked(memory.NewHead(&v), v.Spelling)
	s.spellDirsLocked(n.parent, &v)
	s.known.Came(v.Path)
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
func (s *store) newChildLocked(dir *node, path string, mode uint32, at time.Time) *node {
	n := s.fs.newNode(s, mode, at)
	known := s.coversLocked(dir, path)
	// In a directory that is new since its name was known to be free, nothing
	// is but what the follower brings.
	if n.isDir() {
		n.complete = known
		n.marker = s.takeMarkerLocked(path)
	}
	_, name := split(path)
	attachLocked(dir, name, n)
	if known {
		dir.touchLocked(at)
		s.fs.notify.entryLocked(dir, name)
	} else if at.After(dir.mtime) {
		dir.mtime, dir.ctime = at, at // which the kernel does not keep yet
		dir.markLocked()
	}
	return n
}

// overtakenLocked reports whether the tree shows that v is not the head of its path
// any more.
func (s *store) overtakenLocked(v versionlog.Version) bool {
	if s.gone[v.Path] > v.Seq {
		return true // freed since
	}
	n := s.root
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
func (s *store) coversLocked(dir *node, path string) bool {
	return s.loading.done || dir.complete || s.loading.asked[path] || path+belowAll <= s.loading.cursor
}

// knowsLocked reports whether the tree has everything that is in dir.
func (s *store) knowsLocked(dir *node) bool {
	if s.loading.done || dir.complete {
		return true
	}
	path, ok := dir.path()
	return !ok || path+belowAll <= s.loading.cursor
}

// noteGoneLocked remembers which paths a commit frees, so that nothing that was read
// before brings them back.
func (s *store) noteGoneLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if freed := freedBy(v); freed != "" {
			s.gone[freed] = max(s.gone[freed], c.Seq)
		}
	}
	s.forgetGoneLocked()
}

// forgetGoneLocked drops what noteGone no longer has to remember.
func (s *store) forgetGoneLocked() {
	if !s.loading.done {
		return
	}
	for path, seq := range s.gone {
		if seq <= s.applied {
			delete(s.gone, path)
		}
	}
}

// doubtLocked notes that a directory looks empty of which the tree does not know
// everything, and finds out.
func (s *store) doubtLocked(dir *node) {
	if s.loading.doubtful[dir] {
		return
	}
	s.loading.doubtful[dir] = true
	s.fs.tasks.Go(func() { _ = s.list(s.fs.ctx, dir) }) // the walk will get there, too
}
