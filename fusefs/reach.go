package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
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
	path, _ := dir.childPath(canonical)
	fs.mu.RUnlock()
	if err := dir.store.ensure(ctx, dir, canonical); err != nil {
		return dir.store.fail("look up", path, err)
	}
	return fuse.OK
}

// reachAll makes sure that the tree has everything that is in a directory.
func (fs *fileSystem) reachAll(ctx context.Context, dirID uint64) fuse.Status {
	fs.mu.RLock()
	dir := fs.node(dirID)
	loads := dir.loadsLocked()
	fs.mu.RUnlock()
	if !loads {
		return fuse.OK
	}
	if err := dir.store.ensureAll(ctx, dir); err != nil {
		return dir.store.fail("list", fs.where(dir), err)
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
