package fusefs

import (
	"path"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/virtual"
)

// Open implements fuse.RawFileSystem. Who reads a file reads what its text was when it
// was opened.
func (f *front) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.Open(cancel, in, out)
	}
	s, n := f.node(in.NodeId)
	file, isFile := n.(virtual.File)
	switch {
	case f.fs.noOpen:
		return fuse.ENOSYS
	case n == nil:
		return fuse.Status(syscall.ESTALE)
	case !isFile:
		return fuse.Status(syscall.EISDIR)
	case writes(in.Flags):
		return fuse.EROFS
	}
	id := in.NodeId
	return f.fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		text, err := file.Text()
		switch {
		case err == syscall.ENOENT: // it has gone since it was looked up
			return fuse.Status(syscall.ESTALE)
		case err != nil:
			return s.fail("open", n.Path(), err)
		case !c.answers():
			return fuse.EINTR
		}
		out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
		if file.Constant() {
			out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
		}
		return f.opened(s, id, append([]byte{}, text...), forControl, out)
	})
}

// OpenDir implements fuse.RawFileSystem.
func (f *front) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.OpenDir(cancel, in, out)
	}
	s, n := f.node(in.NodeId)
	dir, isDir := n.(virtual.Dir)
	switch {
	case f.fs.noOpen:
		return fuse.ENOSYS
	case n == nil:
		return fuse.Status(syscall.ESTALE)
	case !isDir:
		return fuse.ENOTDIR
	case dir.Fixed():
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_CACHE_DIR
	}
	return f.opened(s, in.NodeId, nil, forReading, out)
}

// opened makes a handle of what has a number.
func (f *front) opened(s *store, id uint64, text []byte, why purpose, out *fuse.OpenOut) fuse.Status {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	v := f.fs.virtual.inodes[id]
	if v == nil {
		return fuse.Status(syscall.ESTALE)
	}
	h := &virtualHandle{inode: v, text: text}
	if err := f.fs.affordLocked(h.costs(), why); err != nil {
		return s.tooMuch("open", path.Base(v.at.path), err)
	}
	f.fs.nextFH++
	f.enterLocked(f.fs.nextFH, h)
	f.fs.handing.openedVirtualLocked(f.fs.nextFH, v)
	out.Fh = f.fs.nextFH
	return fuse.OK
}

// costs is what the budget has of a handle.
func (h *virtualHandle) costs() int64 { return handleCost + int64(len(h.text)) }

// enterLocked gives a handle its number.
func (f *front) enterLocked(fh uint64, h *virtualHandle) {
	f.fs.virtual.handles[fh] = h
	h.inode.opens++
	f.fs.budget.changeOpen(h.costs())
}

// InlineRelease implements fusedev.Inline.
func (f *front) InlineRelease(in *fuse.ReleaseIn) bool {
	return f.released(in) || f.FileSystem.InlineRelease(in)
}

// Release implements fuse.RawFileSystem.
func (f *front) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	if !f.released(in) {
		f.FileSystem.Release(cancel, in)
	}
}

// InlineReleaseDir implements fusedev.Inline.
func (f *front) InlineReleaseDir(in *fuse.ReleaseIn) bool {
	return f.released(in) || f.FileSystem.InlineReleaseDir(in)
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *front) ReleaseDir(in *fuse.ReleaseIn) { f.InlineReleaseDir(in) }

// released ends a handle, and reports whether it is one of what is below .mneme.
func (f *front) released(in *fuse.ReleaseIn) bool {
	if !f.fs.virtual.has(in.NodeId) {
		return false
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if h := f.fs.virtual.handles[in.Fh]; h != nil {
		delete(f.fs.virtual.handles, in.Fh)
		f.fs.handing.closedLocked(in.Fh)
		f.fs.budget.changeOpen(-h.costs())
		h.inode.opens--
		f.collectVirtualLocked(h.inode)
	}
	return true
}

// Read implements fuse.RawFileSystem.
func (f *front) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.Read(cancel, in, buf)
	}
	s, n := f.node(in.NodeId)
	file, isFile := n.(virtual.File)
	f.fs.mu.RLock()
	h := f.fs.virtual.handles[in.Fh]
	f.fs.mu.RUnlock()
	if !isFile || h == nil && !f.fs.noOpen {
		return nil, fuse.EBADF
	}
	var text []byte
	if h != nil {
		text = h.text // which does not change
	}
	if text == nil {
		var err error
		if text, err = file.Text(); err != nil {
			return nil, s.fail("read", n.Path(), err)
		}
	}
	start := min(in.Offset, uint64(len(text)))
	end := min(start+uint64(len(buf)), uint64(len(text)))
	return fuse.ReadResultData(text[start:end]), fuse.OK
}

// ReadDir implements fuse.RawFileSystem.
func (f *front) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.ReadDir(cancel, in, out)
	}
	return f.readDir(in, func(_ *store, _ virtual.Dir, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus implements fuse.RawFileSystem.
func (f *front) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.ReadDirPlus(cancel, in, out)
	}
	return f.readDir(in, func(s *store, dir virtual.Dir, e fuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false
		}
		if e.Name == "." || e.Name == ".." {
			return true
		}
		if n, err := dir.Lookup(e.Name); err == nil { // else it has gone meanwhile
			f.reply(s, n, dir.Fixed(), entry)
		}
		return true
	})
}

// readDir adds what fits of a directory, which is listed anew: an offset is the place of
// an entry, after . and .., and says what comes next also where no handle does, and in
// another process.
func (f *front) readDir(in *fuse.ReadIn, add func(*store, virtual.Dir, fuse.DirEntry) bool) fuse.Status {
	s, n := f.node(in.NodeId)
	dir, isDir := n.(virtual.Dir)
	if !isDir {
		return fuse.EBADF
	}
	entries, err := dir.List()
	if err != nil {
		return s.fail("list", dir.Path(), err)
	}
	for _, e := range f.numbered(s, dir, in.NodeId, entries) {
		if e.Off > in.Offset && !add(s, dir, e) {
			break
		}
	}
	return fuse.OK
}

// numbered is what a directory lists, as the kernel is told.
func (f *front) numbered(s *store, dir virtual.Dir, id uint64, entries []virtual.Entry) []fuse.DirEntry {
	const dots = 2
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	up := s.tree.Root().ID()
	if dir.Path() != virtual.Root {
		up = f.fs.virtual.numberLocked(virtualPlace{s.id(), path.Dir(dir.Path())})
	}
	list := []fuse.DirEntry{{Name: ".", Ino: id, Mode: dir.Mode(), Off: 1}, {Name: "..", Ino: up, Mode: syscall.S_IFDIR, Off: dots}}
	for _, e := range entries {
		number := f.fs.virtual.numberLocked(virtualPlace{s.id(), path.Join(dir.Path(), e.Name)})
		list = append(list, fuse.DirEntry{Name: e.Name, Ino: number, Mode: e.Mode, Off: dots + e.Place})
	}
	return list
}
