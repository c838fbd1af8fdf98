package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/errgroup"

	"mneme/fusefs/tree"
)

// commitAll commits every file that is not committed but should be, when the
// mount ends.
func (fs *fileSystem) commitAll() {
	dirty := map[writer]bool{}
	addLocked := func(n *tree.Entry, st *stage) {
		if st != nil && st.dirty && !n.LatestLocked().IsRemovedLocked() {
			dirty[writer{n, st}] = true
		}
	}
	fs.mu.RLock()
	for _, n := range fs.nodes {
		addLocked(n, stageOf(n))
	}
	for _, h := range fs.handles { // also of a stage whose place that of a later writer has taken
		addLocked(h.node, h.stage)
	}
	fs.mu.RUnlock()
	var work errgroup.Group
	work.SetLimit(16) // each may be a round trip
	for w := range dirty {
		work.Go(func() error {
			fs.commitUnheard(w.node, w.stage, ending)
			return nil
		})
	}
	_ = work.Wait()
}

// endWriter ends a writer of a stage by endLocked. As the last one it commits what others have left to
// it, whose handles ended while it did something else.
func (fs *fileSystem) endWriter(n *tree.Entry, st *stage, endLocked func(*tree.Entry, *stage)) {
	for !fs.endedWriter(n, st, endLocked) {
		fs.commitUnheard(n, st, released)
	}
}

// endedWriter is endWriter, unless something must be committed first: then it returns false.
func (fs *fileSystem) endedWriter(n *tree.Entry, st *stage, endLocked func(*tree.Entry, *stage)) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	isScratch := n.IsUnloggedLocked() && fs.classOfLocked(n) != ordinary
	if st.writers == 1 && st.dirty && !st.wasKeptLocked() && !isScratch && !n.LatestLocked().IsRemovedLocked() {
		return false
	}
	endLocked(n, st)
	return true
}

// commitUnheard is commitFile where no program hears of an error: what cannot
// be committed is kept as a conflict.
func (fs *fileSystem) commitUnheard(n *tree.Entry, st *stage, why occasion) {
	if status := fs.commitFile(n, st, why); !status.Ok() {
		fs.keepUnheard(n, st, status)
	}
}

// keepUnheard keeps the uncommitted bytes of a stage as a conflict, unless they are kept already:
// no program hears of the error.
func (fs *fileSystem) keepUnheard(n *tree.Entry, st *stage, status fuse.Status) {
	fs.mu.Lock()
	l := lossLocked(n, st, syscall.Errno(status))
	unkept := st.dirty && st.err == 0 && !st.isKeptLocked()
	fs.mu.Unlock()
	if !unkept {
		return
	}
	fs.log.Error("not committed", "store", storeOf(n).slug(), "path", l.Path, "err", syscall.Errno(status))
	id := storeOf(n).session.Keep(fs.ctx, l)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	st.conflict, st.conflictAt = id, l.Mark
}
