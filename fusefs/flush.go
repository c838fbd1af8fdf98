package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/openfiles"
)

// Flush implements fuse.RawFileSystem: the close of one descriptor.
//
// It commits what was written through that handle, and all before it, unless another
// close is to do that: see leaves.
//
// When it returns, the kernel has been told of what the mount heard while the
// handle was made, about other files too: before, it held the directory in which
// it wanted a file made. emacs makes its lock file, and then asks whether the file
// that it is about to save has changed.
func (fs *fileSystem) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if fs.quiet {
		return fuse.ENOSYS
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	fs.mu.RUnlock()
	if h == nil || h.stage == nil {
		return fuse.OK
	}
	status := fuse.OK
	if leaves, upTo := fs.leaves(h, in.Pid); !leaves {
		status = fs.commitUpTo(h.node, h.stage, saved, upTo)
	}
	if !status.Ok() && fs.openFiles.AncestryHasOpen(in.Pid, h.node.id) != openfiles.Yes {
		fs.closeFailed(h.node, h.stage, status)
	}
	fs.tellName(h.node)
	_ = fs.notify.Await(fs.ctx, h.heard.after, h.heard.upTo)
	return status
}
