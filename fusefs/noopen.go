package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A mount in which no store can be written answers without opens: it refuses OPEN, OPENDIR and
// FLUSH with ENOSYS. The kernel then opens files and directories without asking, and sends no
// request at all for anything that is in its caches. So there are no handles: requests name
// nodes.

// readByNode is Read without a handle.
func (fs *fileSystem) readByNode(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	fs.mu.RLock()
	n := fs.node(in.NodeId)
	if n == nil || n.IsDir() {
		fs.mu.RUnlock()
		return nil, fuse.EBADF
	}
	head := n.HeadLocked()
	fs.mu.RUnlock()
	var data []byte
	if head != nil {
		var status fuse.Status
		if data, status = fs.readHead(cancel, in.Pid, n, head); !status.Ok() {
			return nil, status
		}
	}
	start := min(in.Offset, uint64(len(data)))
	end := min(start+uint64(len(buf)), uint64(len(data)))
	return fuse.ReadResultData(data[start:end]), fuse.OK
}

// refuseByNode answers a write to a file that the kernel has let a program open, or map, where
// the kernel was made to believe that the mount may be written. The bytes are in its page cache,
// where all programs see them, and must go.
func (fs *fileSystem) refuseByNode(id uint64) fuse.Status {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n := fs.node(id); n != nil {
		fs.notify.contentLocked(n)
	} else if fs.virtual.has(id) {
		fs.notify.Content(id)
	}
	return fuse.EROFS
}
