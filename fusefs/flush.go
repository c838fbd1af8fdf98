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
func (fs *fileSystem) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if fs.noOpen {
		return fuse.ENOSYS
	}
	fs.mu.RLock()
	h := fs.handles[in.Fh]
	fs.mu.RUnlock()
	if h == nil || h.stage == nil {
		return fuse.OK
	}
	thread := in.Pid
	return fs.beside(cancel, thread, func(c *call) fuse.Status {
		status := fuse.OK
		if leaves, upTo := fs.leaves(h, thread); !leaves {
			status = fs.commitUpTo(h.node, h.stage, saved, upTo)
		}
		switch {
		case status.Ok():
		case !c.answers():
			fs.keepUnheard(h.node, h.stage, status)
		case fs.openFiles.AncestryHasOpen(thread, h.node.id) != openfiles.Yes:
			fs.closeFailed(h.node, h.stage, status)
		}
		fs.tellName(c.ctx, h.node)
		_ = fs.notify.Await(c.ctx, h.heard.after, h.heard.upTo)
		return status
	})
}
