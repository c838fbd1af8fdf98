package fusefs

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
)

// dirEntry is one name of an open directory.
type dirEntry struct {
	name string
	id   uint64
	mode uint32
	next uint64 // the offset after it
}

// OpenDir implements fuse.RawFileSystem.
func (fs *fileSystem) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if status, answered := fs.InlineOpenDir(in, out); answered {
		return status
	}
	id := in.NodeId
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		if status := fs.reachAll(c.ctx, id); !status.Ok() {
			return status
		}
		fs.mu.Lock()
		defer fs.mu.Unlock()
		n := fs.node(id)
		switch {
		case n == nil:
			return fuse.Status(syscall.ESTALE)
		case !c.answers():
			return fuse.EINTR
		}
		return fs.openDirLocked(n, out)
	})
}

// openDirLocked makes a handle of a directory.
func (fs *fileSystem) openDirLocked(n *tree.Entry, out *fuse.OpenOut) fuse.Status {
	if storeOf(n) != nil {
		if err := fs.affordLocked(handleCost, forReading); err != nil {
			return storeOf(n).tooMuch("open", n.NameLocked(), err)
		}
	}
	if !inodeOf(n).cache.Respelled {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	}
	cacheOf(n).Respelled = false
	if !cacheOf(n).ReadBelow.Swap(false) {
		out.OpenFlags |= fuse.FOPEN_CACHE_DIR
	}
	out.Fh = fs.newHandleLocked(&handle{node: n})
	return fuse.OK
}

// listLocked returns what dir holds, as of now. An open directory keeps its list, in
// byte order, and offsets are places in it. In a mount without opens many read one list
// and a newer one may take its place between two requests, so that there an
// offset is an id, and they are in that order.
func (fs *fileSystem) listLocked(dir *tree.Entry) []dirEntry {
	up := dir
	if dir.ParentLocked() != nil {
		up = dir.ParentLocked()
	}
	entries := make([]dirEntry, 0, dir.CountLocked()+2)
	for _, n := range dir.ChildrenLocked() {
		entries = append(entries, dirEntry{n.ListedAsLocked(), n.ID(), n.ModeLocked(), n.ID() + 2}) // above those of . and ..
	}
	if fs.noOpen {
		slices.SortFunc(entries, func(a, b dirEntry) int { return cmp.Compare(a.id, b.id) })
	} else {
		slices.SortFunc(entries, func(a, b dirEntry) int { return strings.Compare(a.name, b.name) })
		for i := range entries {
			entries[i].next = uint64(i) + 3
		}
	}
	return slices.Insert(entries, 0, dirEntry{".", dir.ID(), dir.ModeLocked(), 1}, dirEntry{"..", up.ID(), up.ModeLocked(), 2})
}

// ReadDir implements fuse.RawFileSystem.
func (fs *fileSystem) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.readDir(cancel, in, func(e dirEntry) bool {
		return out.AddDirEntry(fuse.DirEntry{Name: e.name, Ino: e.id, Mode: e.mode, Off: e.next})
	})
}

// ReadDirPlus implements fuse.RawFileSystem.
func (fs *fileSystem) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	//archtest:locked readDir calls it with the lock
	return fs.readDir(cancel, in, func(e dirEntry) bool {
		entry := out.AddDirLookupEntry(fuse.DirEntry{Name: e.name, Ino: e.id, Mode: e.mode, Off: e.next})
		if entry == nil {
			return false
		}
		if n := fs.node(e.id); n != nil && n.ParentLocked() != nil && n.ListedAsLocked() == e.name {
			fs.replyLocked(n, n.NameLocked() == e.name, entry)
		}
		return true
	})
}

func (fs *fileSystem) readDir(cancel <-chan struct{}, in *fuse.ReadIn, add func(dirEntry) bool) fuse.Status {
	if status := fs.reachListed(cancel, in); !status.Ok() {
		return status
	}
	ended, status := fs.readDirPart(in, add)
	if ended != nil {
		fs.ahead.Listed(cached{ended})
	}
	return status
}

// reachListed is reachAll for a request that lists a directory.
func (fs *fileSystem) reachListed(cancel <-chan struct{}, in *fuse.ReadIn) fuse.Status {
	id := in.NodeId
	fs.mu.RLock()
	loads := fs.node(id).LoadingLocked()
	fs.mu.RUnlock()
	if !loads {
		return fuse.OK
	}
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status { return fs.reachAll(c.ctx, id) })
}

// readDirPart adds what fits, and returns the directory when that was its end.
func (fs *fileSystem) readDirPart(in *fuse.ReadIn, add func(dirEntry) bool) (*tree.Entry, fuse.Status) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var dir *tree.Entry
	var entries *[]dirEntry
	if h := fs.handles[in.Fh]; h != nil {
		dir, entries = h.node, &h.entries
	} else if n := fs.node(in.NodeId); fs.noOpen && n != nil && n.IsDir() {
		inode := ownInode(n)
		if inode.list == nil {
			inode.list = new([]dirEntry)
		}
		dir, entries = n, inode.list
	} else {
		return nil, fuse.EBADF
	}
	if in.Offset == 0 || *entries == nil {
		list := fs.listLocked(dir)
		if h := fs.handles[in.Fh]; h != nil && storeOf(dir) != nil {
			if err := fs.holdListLocked(h, list); err != nil {
				return nil, storeOf(dir).tooMuch("list", dir.NameLocked(), err)
			}
		}
		*entries = list
		cacheOf(dir).Listed()
	}
	from, _ := slices.BinarySearchFunc(*entries, in.Offset+1, func(e dirEntry, next uint64) int { return cmp.Compare(e.next, next) })
	for _, e := range (*entries)[from:] {
		if !add(e) {
			return nil, fuse.OK
		}
	}
	if from < len(*entries) {
		return nil, fuse.OK
	}
	if inodeOf(dir).list != nil { // in a mount without opens
		ownInode(dir).list = nil
	}
	return dir, fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (fs *fileSystem) ReleaseDir(in *fuse.ReleaseIn) { fs.InlineReleaseDir(in) }

// FsyncDir implements fuse.RawFileSystem. Names are durable when the request
// that made them returns.
func (fs *fileSystem) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// Mkdir implements fuse.RawFileSystem. The directory is in the log when it returns.
func (fs *fileSystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	fs.mu.RLock()
	parent, status := fs.writableLocked(in.NodeId)
	fs.mu.RUnlock()
	if !status.Ok() {
		return status
	}
	req := *in
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		defer fs.tellUnheard(c, kernelName{req.NodeId, name})
		return fs.mkdirBeside(c, parent, &req, name, out)
	})
}

func (fs *fileSystem) mkdirBeside(c *call, parent *tree.Entry, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	storeOf(parent).refresh(c.ctx)
	if status := fs.reach(c.ctx, in.NodeId, name); !status.Ok() {
		return status
	}
	if status := fs.beforeMkdir(in, name); !status.Ok() {
		return status
	}
	release, status := storeOf(parent).claimDir(c.ctx, nameIn{parent, name})
	if !status.Ok() {
		return status
	}
	var n *tree.Entry
	if status = fuse.EINTR; c.ctx.Err() == nil {
		n, status = fs.makeDir(c, in, name, out)
	}
	release()
	if status.Ok() {
		status = fs.keepMode(n, in.Mode) // forgets a private one that had the name before
	}
	return status
}

// newNameLocked checks that something may be made under a name in a directory, with
// room for below more segments, and returns the directory and the name's
// canonical form.
func (fs *fileSystem) newNameLocked(dirID uint64, name string, below int) (*tree.Entry, string, fuse.Status) {
	dir, status := fs.writableLocked(dirID)
	if !status.Ok() {
		return nil, "", status
	}
	canonical, err := memory.ParseName(name)
	if err == nil && dir.ChildLocked(canonical) == nil {
		err = memory.CheckNew(canonical)
	}
	if err != nil {
		return nil, "", storeOf(dir).fail("create", name, err)
	}
	path, ok := dir.ChildPathLocked(canonical)
	if !ok || dir.IsRemovedLocked() {
		return nil, "", fuse.ENOENT
	}
	if err := memory.CheckPath(path + strings.Repeat("/.", below)); err != nil {
		return nil, "", storeOf(dir).fail("create", path, err)
	}
	return dir, canonical, fuse.OK
}

// Rmdir implements fuse.RawFileSystem.
func (fs *fileSystem) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return fs.removeBeside(cancel, header, name, fs.rmdir)
}

func (fs *fileSystem) rmdir(ctx context.Context, dirID uint64, name, canonical string) fuse.Status {
	in, status := fs.directoryToChange(ctx, dirID)
	if !status.Ok() {
		return status
	}
	if status := fs.reachContent(ctx, dirID, name); !status.Ok() {
		return status
	}
	release, status := storeOf(in).claimDir(ctx, nameIn{in, name}) // so that it is not renamed meanwhile
	if !status.Ok() {
		return status
	}
	defer release()
	if ctx.Err() != nil {
		return fuse.EINTR
	}
	parent, n, path, status := fs.mayRmdir(dirID, canonical)
	if !status.Ok() {
		return status
	}
	if path != "" {
		status = storeOf(parent).removeDir(path)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n.SetRemovedLocked(false)
	switch {
	case n.ParentLocked() != parent || parent.ChildLocked(canonical) != n: // the follower has brought its removal
		return status
	case status != fuse.OK && status != fuse.ENOENT, n.CountLocked() > 0:
		return status
	}
	if path != "" {
		n.UnmarkLocked()
	}
	storeOf(parent).tree.RemovedDirLocked(parent, n, canonical, name)
	return status
}

// mayRmdir checks that a directory can be removed, in which nothing is made until the
// caller has done so, or not. The path is "" where the log does not have it itself.
func (fs *fileSystem) mayRmdir(dirID uint64, canonical string) (dir, n *tree.Entry, path string, status fuse.Status) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, status = fs.writableLocked(dirID)
	if !status.Ok() {
		return nil, nil, "", status
	}
	n = dir.ChildLocked(canonical)
	switch {
	case n == nil && dir == storeOf(dir).tree.Root() && canonical == memory.ReservedName:
		return nil, nil, "", fuse.EROFS
	case n == nil:
		return nil, nil, "", fuse.ENOENT
	case !n.IsDir():
		return nil, nil, "", fuse.ENOTDIR
	case n.CountLocked() > 0:
		return nil, nil, "", fuse.Status(syscall.ENOTEMPTY)
	}
	n.SetRemovedLocked(true)
	if n.MarkerLocked() != 0 && !n.HidesLocked() { // what is hidden there is still in the log
		path, _ = n.PathLocked()
	}
	return dir, n, path, fuse.OK
}
