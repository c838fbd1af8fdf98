package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// What follows answers at once what needs nothing but the tree: it takes fs.mu,
// and waits for nothing else. The goroutine that reads the requests calls it,
// see fusedev.Prompt. The ordinary methods try it first and do the rest.

// PromptOpen implements fusedev.Prompt, for files that are only read, and for those
// whose newest version the tree is known to show.
func (fs *fileSystem) PromptOpen(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	if fs.quiet {
		return fuse.ENOSYS, true
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.node(in.NodeId)
	if n == nil || n.isDir() || n.untoldLocked() || writes(in.Flags) && !fs.letsWriteLocked(n) {
		return fuse.OK, false
	}
	return fs.openFileLocked(n, in, fs.notify.Newest(), out), true
}

// letsWriteLocked reports whether it is known at once that a conflict is no reason to
// refuse an open of n to write.
func (fs *fileSystem) letsWriteLocked(n *node) bool {
	return !n.had().cache.Pushing() && !fs.opts.Strict && !n.knownLocked().Stale(n.head) && n.store.currentLocked()
}

// PromptCreate implements fusedev.Prompt, for names that are known to be free.
func (fs *fileSystem) PromptCreate(in *fuse.CreateIn, name string, out *fuse.CreateOut) (fuse.Status, bool) {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.OK, false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, status := fs.writableLocked(in.NodeId)
	if !status.Ok() || dir.removed || dir.loadsLocked() || special(in.Mode) {
		return fuse.OK, false
	}
	path, ok := dir.childPath(canonical)
	if !ok || memory.CheckPath(path) != nil || dir.children[canonical] != nil || dir.hidden[canonical] != nil || dir.hiddenDirs[canonical] != nil || !dir.store.currentLocked() {
		return fuse.OK, false
	}
	return fs.createLocked(in, name, fs.notify.Newest(), out), true
}

// PromptWrite implements fusedev.Prompt, for stages that have their content and
// will be committed.
func (fs *fileSystem) PromptWrite(in *fuse.WriteIn, data []byte) (uint32, fuse.Status, bool) {
	return fs.promptWrite(in, [][]byte{data})
}

func (fs *fileSystem) promptWrite(in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h := fs.handles[in.Fh]
	if fs.quiet || h == nil || h.stage == nil {
		return 0, fuse.OK, false
	}
	n, st := h.node, h.stage
	n.startLocked(st, appends(in))
	if !st.loaded && st.err == 0 || fs.doomedLocked(n, st) {
		return 0, fuse.OK, false
	}
	size, status := fs.writeLoadedLocked(h, in, data)
	return size, status, true
}

// PromptRelease implements fusedev.Prompt, for handles that leave nothing to be
// committed.
func (fs *fileSystem) PromptRelease(in *fuse.ReleaseIn) bool {
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

// PromptOpenDir implements fusedev.Prompt, for directories that have loaded.
func (fs *fileSystem) PromptOpenDir(in *fuse.OpenIn, out *fuse.OpenOut) (fuse.Status, bool) {
	if fs.quiet {
		return fuse.ENOSYS, true
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.node(in.NodeId)
	if n == nil || n.loadsLocked() {
		return fuse.OK, false
	}
	return fs.openDirLocked(n, out), true
}

// PromptReleaseDir implements fusedev.Prompt.
func (fs *fileSystem) PromptReleaseDir(in *fuse.ReleaseIn) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropHandleLocked(in.Fh)
	return true
}

// PromptLookup implements fusedev.Prompt, for names in directories that have
// loaded.
func (fs *fileSystem) PromptLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err), true // no file can have it; what creates it is told more
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.node(header.NodeId)
	if dir == nil || !dir.isDir() || dir.loadsLocked() {
		return fuse.OK, false
	}
	return fs.lookupLocked(dir, name, canonical, header.Pid, out), true
}

// PromptGetAttr implements fusedev.Prompt.
func (fs *fileSystem) PromptGetAttr(in *fuse.GetAttrIn, out *fuse.AttrOut) (fuse.Status, bool) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n := fs.node(in.NodeId)
	if n == nil {
		return fuse.OK, false
	}
	fs.attributesLocked(n, out)
	return fuse.OK, true
}
