package fusefs

import (
	"cmp"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
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
	if dir.ParentLocked() != nil && dir.ID() != fuse.FUSE_ROOT_ID {
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
		file := ownOpenFile(n)
		if file.list == nil {
			file.list = new([]dirEntry)
		}
		dir, entries = n, file.list
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
	if fs.noOpen {
		closedLocked(dir)
	}
	return dir, fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (fs *fileSystem) ReleaseDir(in *fuse.ReleaseIn) { fs.InlineReleaseDir(in) }

// FsyncDir implements fuse.RawFileSystem. Names are durable when the request
// that made them returns.
func (fs *fileSystem) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }
