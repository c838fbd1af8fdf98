package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// refuse answers a request for something that no store can hold.
func (fs *fileSystem) refuse(id uint64) fuse.Status {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if _, status := fs.writable(id); !status.Ok() {
		return status
	}
	return fuse.EPERM
}

// Symlink implements fuse.RawFileSystem.
func (fs *fileSystem) Symlink(_ <-chan struct{}, header *fuse.InHeader, _, _ string, _ *fuse.EntryOut) fuse.Status {
	return fs.refuse(header.NodeId)
}

// Link implements fuse.RawFileSystem.
func (fs *fileSystem) Link(_ <-chan struct{}, in *fuse.LinkIn, _ string, _ *fuse.EntryOut) fuse.Status {
	return fs.refuse(in.NodeId)
}

// Fallocate implements fuse.RawFileSystem. Programs fall back to writing.
func (fs *fileSystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if status := fs.refuse(in.NodeId); status == fuse.EROFS {
		return status
	}
	return fuse.Status(syscall.EOPNOTSUPP)
}

// Ioctl implements fuse.RawFileSystem.
func (fs *fileSystem) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.Status(syscall.ENOTTY)
}
