package fusefs

import (
	"cmp"
	"context"
	"iter"
	"path"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/virtual"
	"mneme/memory"
)

// Open implements fuse.RawFileSystem. A program that reads a file reads the text as it was when
// the file was opened.
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
		text, err := file.Text(c.ctx)
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
		if text == nil {
			text = []byte{}
		}
		return f.opened(s, id, text, forControl, out)
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

// opened makes a handle of a node that has a number.
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

// released ends a handle, and reports whether it is a handle of a node below .mneme.
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
	var text []byte
	if h != nil {
		text = h.text // nil: it must be made again
	}
	f.fs.mu.RUnlock()
	if !isFile || h == nil && !f.fs.noOpen {
		return nil, fuse.EBADF
	}
	if text == nil {
		status := f.fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
			read, err := file.Text(c.ctx)
			switch {
			case err != nil:
				return s.fail("read", n.Path(), err)
			case !c.answers():
				return fuse.EINTR
			}
			text = read
			return fuse.OK
		})
		if !status.Ok() {
			return nil, status
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
	return f.readDir(cancel, in, func(_ context.Context, _ *store, _ virtual.Dir, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus implements fuse.RawFileSystem.
func (f *front) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.ReadDirPlus(cancel, in, out)
	}
	return f.readDir(cancel, in, func(ctx context.Context, s *store, dir virtual.Dir, e fuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false
		}
		if e.Name == "." || e.Name == ".." {
			return true
		}
		canonical, err := memory.ParseName(e.Name)
		if err != nil {
			return true
		}
		if n, err := dir.Lookup(ctx, canonical); err == nil { // else it has gone meanwhile
			f.reply(s, n, e.Name, entry)
		}
		return true
	})
}

// readDir adds the entries of a directory that fit. The directory is listed again: an offset is
// the place of an entry, after . and .., so it names the next entry also in another process, and
// where no handle does.
func (f *front) readDir(cancel <-chan struct{}, in *fuse.ReadIn, add func(context.Context, *store, virtual.Dir, fuse.DirEntry) bool) fuse.Status {
	s, n := f.node(in.NodeId)
	dir, isDir := n.(virtual.Dir)
	if !isDir {
		return fuse.EBADF
	}
	id, from := in.NodeId, in.Offset
	return f.fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		entries, err := dir.List(c.ctx)
		switch {
		case err != nil:
			return s.fail("list", dir.Path(), err)
		case !c.answers():
			return fuse.EINTR
		}
		for e := range f.numbered(s, dir, id, from, entries) {
			if !add(c.ctx, s, dir, e) {
				break
			}
		}
		return fuse.OK
	})
}

// numbered yields what a directory lists behind an offset, as the kernel is told.
func (f *front) numbered(s *store, dir virtual.Dir, id, offset uint64, entries []virtual.Entry) iter.Seq[fuse.DirEntry] {
	const dots = 2
	number := func(at string) uint64 {
		f.fs.mu.RLock()
		defer f.fs.mu.RUnlock()
		return f.fs.virtual.numberLocked(virtualPlace{s.id(), at})
	}
	return func(yield func(fuse.DirEntry) bool) {
		up := s.tree.Root().ID()
		if dir.Path() != virtual.Root {
			up = number(path.Dir(dir.Path()))
		}
		for _, e := range []fuse.DirEntry{{Name: ".", Ino: id, Mode: dir.Mode(), Off: 1}, {Name: "..", Ino: up, Mode: syscall.S_IFDIR, Off: dots}} {
			if e.Off > offset && !yield(e) {
				return
			}
		}
		first, _ := slices.BinarySearchFunc(entries, offset, func(e virtual.Entry, offset uint64) int { return cmp.Compare(dots+e.Place, offset+1) })
		for _, e := range entries[first:] {
			if !yield(fuse.DirEntry{Name: e.Name, Ino: number(path.Join(dir.Path(), e.Name)), Mode: e.Mode, Off: dots + e.Place}) {
				return
			}
		}
	}
}
