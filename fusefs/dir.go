package fusefs

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// dirEntry is one name of an open directory.
type dirEntry struct {
	name string
	id   uint64
	mode uint32
}

// OpenDir implements fuse.RawFileSystem.
func (fs *fileSystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.node(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	out.Fh = fs.newHandle(&handle{node: n})
	return fuse.OK
}

// list returns what dir holds, as of now, in byte order: the offsets of an
// open directory are places in this list, and so stay what they are.
// Caller holds fs.mu.
func list(dir *node) []dirEntry {
	up := dir
	if dir.parent != nil {
		up = dir.parent
	}
	entries := make([]dirEntry, 0, len(dir.children)+2)
	for _, n := range dir.children {
		entries = append(entries, dirEntry{n.name, n.id, n.mode})
	}
	slices.SortFunc(entries, func(a, b dirEntry) int { return strings.Compare(a.name, b.name) })
	return slices.Insert(entries, 0, dirEntry{".", dir.id, dir.mode}, dirEntry{"..", up.id, up.mode})
}

// ReadDir implements fuse.RawFileSystem.
func (fs *fileSystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.readDir(in, func(e dirEntry) bool {
		return out.AddDirEntry(fuse.DirEntry{Name: e.name, Ino: e.id, Mode: e.mode})
	})
}

// ReadDirPlus implements fuse.RawFileSystem.
func (fs *fileSystem) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.readDir(in, func(e dirEntry) bool {
		entry := out.AddDirLookupEntry(fuse.DirEntry{Name: e.name, Ino: e.id, Mode: e.mode})
		if entry == nil {
			return false
		}
		if n := fs.node(e.id); n != nil && n.parent != nil && n.name == e.name {
			fs.reply(n, true, entry)
		}
		return true
	})
}

func (fs *fileSystem) readDir(in *fuse.ReadIn, add func(dirEntry) bool) fuse.Status {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	h := fs.handles[in.Fh]
	if h == nil {
		return fuse.EBADF
	}
	if in.Offset == 0 || h.entries == nil {
		h.entries = list(h.node)
	}
	for i := in.Offset; i < uint64(len(h.entries)); i++ {
		if !add(h.entries[i]) {
			break
		}
	}
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (fs *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropHandle(in.Fh)
}

// FsyncDir implements fuse.RawFileSystem. Names are durable when the request
// that made them returns.
func (fs *fileSystem) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// Mkdir implements fuse.RawFileSystem. The directory is this mount's own until
// a memory lands in it.
func (fs *fileSystem) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	fs.mu.RLock()
	parent, status := fs.writable(in.NodeId)
	fs.mu.RUnlock()
	if !status.Ok() {
		return status
	}
	parent.store.refresh()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, canonical, status := fs.place(in.NodeId, name, 1)
	if !status.Ok() {
		return status
	}
	if dir.children[canonical] != nil {
		return fuse.Status(syscall.EEXIST)
	}
	now := time.Now()
	n := fs.newNode(dir.store, syscall.S_IFDIR|in.Mode&0o777, now)
	n.kept = true
	attach(dir, canonical, n)
	dir.touch(now)
	fs.reply(n, canonical == name, out)
	return fuse.OK
}

// place checks that something may be made under a name in a directory, with
// room for below more segments, and returns the directory and the name's
// canonical form. Caller holds fs.mu.
func (fs *fileSystem) place(dirID uint64, name string, below int) (*node, string, fuse.Status) {
	dir, status := fs.writable(dirID)
	if !status.Ok() {
		return nil, "", status
	}
	canonical, err := memory.ParseName(name)
	if err != nil {
		return nil, "", dir.store.fail("create", name, err)
	}
	path, ok := dir.childPath(canonical)
	if !ok || dir.removed {
		return nil, "", fuse.ENOENT
	}
	if err := memory.CheckPath(path + strings.Repeat("/.", below)); err != nil {
		return nil, "", dir.store.fail("create", path, err)
	}
	return dir, canonical, fuse.OK
}

// Rmdir implements fuse.RawFileSystem.
func (fs *fileSystem) Rmdir(_ <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.ENOENT
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, status := fs.writable(header.NodeId)
	if !status.Ok() {
		return status
	}
	n := dir.children[canonical]
	switch {
	case n == nil && dir == dir.store.root && canonical == memory.ReservedName:
		return fuse.EROFS
	case n == nil:
		return fuse.ENOENT
	case !n.isDir():
		return fuse.ENOTDIR
	case len(n.children) > 0 || len(n.hidden) > 0:
		return fuse.Status(syscall.ENOTEMPTY)
	}
	n.removed = true
	dir.touch(time.Now())
	dir.kept = true
	if canonical != name {
		fs.notify.entry(dir, canonical)
	}
	fs.detach(n)
	return fuse.OK
}
