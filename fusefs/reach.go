package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
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
	if !dir.LoadingLocked() {
		fs.mu.RUnlock()
		return fuse.OK
	}
	path, _ := dir.ChildPathLocked(canonical)
	fs.mu.RUnlock()
	if err := storeOf(dir).tree.Ensure(ctx, dir, canonical); err != nil {
		return storeOf(dir).fail("look up", path, err)
	}
	return fuse.OK
}

// reachAll makes sure that the tree has everything that is in a directory.
func (fs *fileSystem) reachAll(ctx context.Context, dirID uint64) fuse.Status {
	fs.mu.RLock()
	dir := fs.node(dirID)
	loads := dir.LoadingLocked()
	fs.mu.RUnlock()
	if !loads {
		return fuse.OK
	}
	if err := storeOf(dir).tree.EnsureAll(ctx, dir); err != nil {
		return storeOf(dir).fail("list", fs.where(dir), err)
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
	return fs.reachAll(ctx, n.ID())
}

// reachNode is reach, and returns what has the name, or nil.
func (fs *fileSystem) reachNode(ctx context.Context, dirID uint64, name string) (*tree.Entry, fuse.Status) {
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
	if dir == nil || !dir.IsDir() {
		return nil, fuse.OK
	}
	return dir.ChildLocked(canonical), fuse.OK
}
