package fusefs

import (
	"cmp"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Mknod implements fuse.RawFileSystem: an empty regular file, which is committed
// when the call returns, since no close will come. Nothing else can be made.
func (fs *fileSystem) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if in.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return fs.unsupported(in.NodeId, name, noDevices)
	}
	create := fuse.CreateIn{InHeader: in.InHeader, Flags: syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL, Mode: in.Mode}
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		defer fs.tellUnheard(c, kernelName{create.NodeId, name})
		return fs.mknod(c, &create, name, out)
	})
}

func (fs *fileSystem) mknod(c *call, in *fuse.CreateIn, name string, out *fuse.EntryOut) fuse.Status {
	var created fuse.CreateOut
	status, answered := fs.InlineCreate(in, name, &created)
	if !answered {
		status = fs.makeFile(&call{ctx: c.ctx}, in, name, &created)
	}
	if !status.Ok() {
		return status
	}
	fs.mu.RLock()
	h := fs.handles[created.Fh]
	fs.mu.RUnlock()
	status = fs.commitFile(h.node, h.stage, saved)
	if !status.Ok() {
		fs.closeFailed(h, status)
	}
	fs.Release(nil, &fuse.ReleaseIn{InHeader: in.InHeader, Fh: created.Fh})
	if !status.Ok() || !c.answers() {
		fs.Forget(created.NodeId, 1) // of which the kernel does not hear
		return cmp.Or(status, fuse.EINTR)
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	*out = created.EntryOut
	fs.fillAttrLocked(h.node, &out.Attr)
	return fuse.OK
}
