package fusefs

import (
	"fmt"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// limitation is a kind of thing that no store can hold. .mneme/errors has one line for
// each, about the newest that was refused.
type limitation struct{ op, why string }

var (
	noSymlinks = limitation{"create", "a store has no symbolic links; copy the file, or write its place into a file"}
	noLinks    = limitation{"create", "a store has no hard links; copy the file"}
	noDevices  = limitation{"create", "a store has no devices, pipes or sockets; make them elsewhere, such as in /tmp"}
	noOwners   = limitation{"change", "all files of a mount have one owner; leave it as it is"}
	noSetuid   = limitation{"change", "a store has no setuid, setgid or sticky files; leave these bits out"}
)

// unsupported answers a request for a name in a directory, or for a file itself where name
// is "".
func (fs *fileSystem) unsupported(id uint64, name string, l limitation) fuse.Status {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n, status := fs.writableLocked(id)
	if !status.Ok() {
		return status
	}
	path, _ := n.PathLocked()
	if name != "" {
		path, _ = n.ChildPathLocked(name)
	}
	storeOf(n).errors.AddKind(l.why, path, fmt.Sprintf("%s %s:%s: %s (%v)", l.op, storeOf(n).slug(), path, l.why, syscall.EPERM))
	return fuse.EPERM
}

// Symlink implements fuse.RawFileSystem.
func (fs *fileSystem) Symlink(_ <-chan struct{}, header *fuse.InHeader, _, name string, _ *fuse.EntryOut) fuse.Status {
	return fs.unsupported(header.NodeId, name, noSymlinks)
}

// Link implements fuse.RawFileSystem.
func (fs *fileSystem) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, _ *fuse.EntryOut) fuse.Status {
	return fs.unsupported(in.NodeId, name, noLinks)
}

// Fallocate implements fuse.RawFileSystem. Programs fall back to writing.
func (fs *fileSystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if _, status := fs.writableLocked(in.NodeId); status == fuse.EROFS {
		return status
	}
	return fuse.Status(syscall.EOPNOTSUPP)
}

// Ioctl implements fuse.RawFileSystem.
func (fs *fileSystem) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.Status(syscall.ENOTTY)
}
