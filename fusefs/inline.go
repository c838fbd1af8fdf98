package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
)

// The functions below answer at once all requests that need nothing but the tree: they take
// fs.mu, and wait for nothing else. The goroutine that reads the requests calls them, see
// fusedev.Inline. The ordinary methods try them first and do the rest.

// InlineOpen implements fusedev.Inline, for files that are only read, and for those
// whose newest version the tree is known to show.
func (fs *fileSystem) InlineOpen(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	if fs.noOpen {
		return fuse.ENOSYS, true
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.node(in.NodeId)
	if n == nil || n.IsDir() || untoldLocked(n) || writes(in.Flags) && !fs.letsWriteLocked(n) {
		return fuse.OK, false
	}
	return fs.openFileLocked(n, in, fs.notify.Newest(), out), true
}

// letsWriteLocked reports whether it is known at once that a conflict is no reason to
// refuse an open of n to write.
func (fs *fileSystem) letsWriteLocked(n *tree.Entry) bool {
	return !inodeOf(n).cache.Pushing() && pushedInsteadLocked(n) == nil && !fs.opts.Strict && !knownLocked(n).Stale(n.HeadLocked()) && storeOf(n).caughtUpLocked()
}

// InlineCreate implements fusedev.Inline, for names that are known to be free.
func (fs *fileSystem) InlineCreate(in *fuse.CreateIn, name string, out *fuse.CreateOut) (fuse.Status, bool) {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.OK, false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, status := fs.writableLocked(in.NodeId)
	if !status.Ok() || dir.IsRemovedLocked() || dir.LoadingLocked() || special(in.Mode) {
		return fuse.OK, false
	}
	path, ok := dir.ChildPathLocked(canonical)
	if !ok || memory.CheckPath(path) != nil || dir.ChildLocked(canonical) != nil || dir.HiddenAtLocked(canonical) != nil || dir.HiddenDirLocked(canonical) != nil || !storeOf(dir).caughtUpLocked() {
		return fuse.OK, false
	}
	return fs.createLocked(in, name, fs.notify.Newest(), out), true
}

// InlineWrite implements fusedev.Inline, for stages that have their content and
// will be committed.
func (fs *fileSystem) InlineWrite(in *fuse.WriteIn, data []byte) (uint32, fuse.Status, bool) {
	return fs.inlineWrite(in, [][]byte{data})
}

func (fs *fileSystem) inlineWrite(in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h := fs.handles[in.Fh]
	if fs.noOpen || h == nil || h.stage == nil {
		return 0, fuse.OK, false
	}
	n, st := h.node, h.stage
	startLocked(n, st, appends(in))
	if !st.loaded && st.err == 0 || fs.willBeLostLocked(n, st) {
		return 0, fuse.OK, false
	}
	size, status := fs.writeLoadedLocked(h, in, data)
	return size, status, status.Ok()
}

// InlineRelease implements fusedev.Inline, for handles that leave nothing to be
// committed.
func (fs *fileSystem) InlineRelease(in *fuse.ReleaseIn) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h := fs.handles[in.Fh]
	if h != nil && h.uncommittedLocked() {
		return false
	}
	fs.dropHandleLocked(in.Fh)
	if h != nil && h.stage != nil {
		fs.endWriteLocked(h.node, h.stage)
	}
	return true
}

// InlineOpenDir implements fusedev.Inline, for directories that have loaded.
func (fs *fileSystem) InlineOpenDir(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	if fs.noOpen {
		return fuse.ENOSYS, true
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.node(in.NodeId)
	if n == nil || n.LoadingLocked() {
		return fuse.OK, false
	}
	return fs.openDirLocked(n, out), true
}

// InlineReleaseDir implements fusedev.Inline.
func (fs *fileSystem) InlineReleaseDir(in *fuse.ReleaseIn) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropHandleLocked(in.Fh)
	return true
}

// InlineLookup implements fusedev.Inline, for names in directories that have
// loaded.
func (fs *fileSystem) InlineLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err), true // no file can have it; what creates it is told more
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.node(header.NodeId)
	if dir == nil || !dir.IsDir() || dir.LoadingLocked() {
		return fuse.OK, false
	}
	return fs.lookupLocked(dir, name, canonical, header.Pid, out), true
}

// InlineGetAttr implements fusedev.Inline.
func (fs *fileSystem) InlineGetAttr(in *fuse.GetAttrIn, out *fuse.AttrOut) (fuse.Status, bool) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n := fs.node(in.NodeId)
	if n == nil {
		return fuse.OK, false
	}
	fs.attributesLocked(n, out)
	return fuse.OK, true
}
