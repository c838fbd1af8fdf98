package fusefs

import (
	"cmp"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
)

// Fsync implements fuse.RawFileSystem. It is about the file, not about the
// descriptor: whatever was written to the file through any of its descriptors is
// committed, also when this one can only read, as that of sync(1), or names an inode
// whose place another session's version has taken since.
func (fs *fileSystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	writers := fs.writersOfLocked(h)
	fs.mu.RUnlock()
	if h == nil {
		return fuse.OK
	}
	if len(writers) == 0 {
		return fuse.OK
	}
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		first := fuse.OK
		for _, w := range writers { // what cannot be committed stays for the next fsync, or the close
			if status := fs.commitFile(w.node, w.stage, synced); first.Ok() {
				first = status
			}
		}
		fs.tellName(c.ctx, h.node)
		return fs.orFailed(h, first)
	})
}

// writer is a stage of a file, with the node that it was begun for.
type writer struct {
	node  *tree.Entry
	stage *stage
}

// writersOfLocked returns the stages of h's file that fsync commits, h's own first, then
// the older ones first.
func (fs *fileSystem) writersOfLocked(h *handle) (writers []writer) {
	if h == nil {
		return nil
	}
	add := func(n *tree.Entry, st *stage) {
		if !slices.Contains(writers, writer{n, st}) {
			writers = append(writers, writer{n, st})
		}
	}
	if h.stage != nil {
		add(h.node, h.stage)
	}
	var others []uint64
	for fh, other := range fs.handles {
		if other.node.LatestLocked() == h.node.LatestLocked() && other.stage.unsyncedLocked(other.node) {
			others = append(others, fh)
		}
	}
	slices.SortFunc(others, cmp.Compare)
	for _, fh := range others {
		add(fs.handles[fh].node, fs.handles[fh].stage)
	}
	if m := h.node.LatestLocked(); stageOf(m).unsyncedLocked(m) { // a temporary file's, which no program has open to write
		add(m, stageOf(m))
	}
	return writers
}

// unsyncedLocked reports whether a stage of n, or none, has bytes that nothing durable has. Bytes
// that lost a race and are kept as a conflict are no longer part of the file.
func (st *stage) unsyncedLocked(n *tree.Entry) bool {
	switch {
	case st == nil || st.err != 0:
		return false
	case st.overtaken && st.isKeptLocked():
		return false
	}
	return st.dirty || storeOf(n).session.IsInDoubt(&st.lost)
}
