package crashfs

import (
	"context"
	"path"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// directory and file are the nodes. go-fuse keeps the tree of names, and the
// kernel locks a directory while something is made, moved or removed in it.
type directory struct {
	fs.Inode
	fs *FS
	id uint64
}

type file struct {
	fs.Inode
	fs   *FS
	id   uint64
	data []byte
}

var (
	_ fs.NodeGetattrer = (*directory)(nil)
	_ fs.NodeSetattrer = (*directory)(nil)
	_ fs.NodeCreater   = (*directory)(nil)
	_ fs.NodeMkdirer   = (*directory)(nil)
	_ fs.NodeUnlinker  = (*directory)(nil)
	_ fs.NodeRmdirer   = (*directory)(nil)
	_ fs.NodeRenamer   = (*directory)(nil)
	_ fs.NodeFsyncer   = (*directory)(nil)

	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFlusher   = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
)

func (d *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = 0o700, 2
	return 0
}

// Setattr accepts modes and times, which no image has.
func (d *directory) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

func (d *directory) path(name string) string { return path.Join(d.Path(nil), name) }

func (d *directory) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	made := &file{fs: d.fs, id: d.fs.numberLocked()}
	d.fs.noteLocked(Op{Kind: Create, Inode: made.id, Dir: d.id, Name: name, Path: d.path(name)})
	out.Mode, out.Nlink = 0o600, 1
	inode := d.NewPersistentInode(ctx, made, fs.StableAttr{Mode: syscall.S_IFREG, Ino: made.id})
	return inode, nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (d *directory) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	made := &directory{fs: d.fs, id: d.fs.numberLocked()}
	d.fs.noteLocked(Op{Kind: Mkdir, Inode: made.id, Dir: d.id, Name: name, Path: d.path(name)})
	out.Mode, out.Nlink = 0o700, 2
	return d.NewPersistentInode(ctx, made, fs.StableAttr{Mode: syscall.S_IFDIR, Ino: made.id}), 0
}

func (d *directory) Unlink(_ context.Context, name string) syscall.Errno {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.fs.noteLocked(Op{Kind: Unlink, Dir: d.id, Name: name, Path: d.path(name)})
	return 0
}

func (d *directory) Rmdir(ctx context.Context, name string) syscall.Errno {
	if child := d.GetChild(name); child != nil && len(child.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	return d.Unlink(ctx, name)
}

// Rename does not do what mneme has no use for: to exchange two names, or to
// replace a directory.
func (d *directory) Rename(_ context.Context, name string, to fs.InodeEmbedder, toName string, flags uint32) syscall.Errno {
	target, ok := to.(*directory)
	if there := target.GetChild(toName); !ok || flags != 0 || there != nil && there.IsDir() {
		return syscall.EINVAL
	}
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.fs.noteLocked(Op{Kind: Rename, Dir: d.id, Name: name, ToDir: target.id, ToName: toName, Path: d.path(name)})
	return 0
}

func (d *directory) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.fs.noteLocked(Op{Kind: FsyncDir, Inode: d.id, Path: d.path("")})
	return 0
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	out.Mode, out.Nlink, out.Size = 0o600, 1, uint64(len(f.data))
	return 0
}

func (f *file) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		f.fs.mu.Lock()
		f.data = resize(f.data, int64(size))
		f.fs.noteLocked(Op{Kind: Truncate, Inode: f.id, Size: int64(size), Path: f.Path(nil)})
		f.fs.mu.Unlock()
	}
	return f.Getattr(ctx, h, out)
}

// Open keeps the kernel's pages: those that another process has mapped and changed are
// newer than the data here.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (f *file) Read(_ context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if offset >= int64(len(f.data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, f.data[offset:])]), 0
}

func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.data = overwrite(f.data, data, offset)
	f.fs.noteLocked(Op{Kind: Write, Inode: f.id, Offset: offset, Data: slices.Clone(data), Path: f.Path(nil)})
	return uint32(len(data)), 0
}

func (f *file) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.noteLocked(Op{Kind: Fsync, Inode: f.id, Path: f.Path(nil)})
	return 0
}

// overwrite writes into content, which it may change.
func overwrite(content, data []byte, offset int64) []byte {
	if end := offset + int64(len(data)); end > int64(len(content)) {
		content = resize(content, end)
	}
	copy(content[offset:], data)
	return content
}

// resize cuts content or fills it up with zeros.
func resize(content []byte, size int64) []byte {
	if size <= int64(len(content)) {
		return content[:size:size]
	}
	return append(content, make([]byte, size-int64(len(content)))...)
}
