package fusefs

import (
	"bytes"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A mount in which no store can be written is quiet: it refuses OPEN, OPENDIR
// and FLUSH with ENOSYS, whereupon the kernel opens files and directories by
// itself and, for what it has in its caches, sends no request at all. So there
// are no handles: requests name nodes.
//
// Without opens a text that is made anew for every reader must be made when the
// kernel asks for its size, which for these files it does at every read.

// textLife is how long the text of a control file stays what it is, so that who
// reads it in pieces gets pieces of one text.
const textLife = 50 * time.Millisecond

// renew makes the text of the control file of an id, if it is one. It takes
// locks, so callers hold none.
func (fs *fileSystem) renew(n *node) {
	if !fs.quiet || n == nil || n.generate == nil {
		return
	}
	fs.mu.RLock()
	fresh := time.Since(time.Unix(0, n.renewed)) < textLife
	fs.mu.RUnlock()
	if fresh {
		return
	}
	text := n.generate()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	now := time.Now()
	n.renewed = now.UnixNano()
	if !bytes.Equal(text, n.content) {
		n.content = text
		n.touch(now) // the kernel drops the pages of a file with another mtime
	}
}

// renewAll is renew for everything in a directory of control files.
func (fs *fileSystem) renewAll(dirID uint64) {
	if !fs.quiet {
		return
	}
	fs.mu.RLock()
	var files []*node
	if dir := fs.node(dirID); dir != nil && dir.isControl() {
		for _, n := range dir.children {
			files = append(files, n)
		}
	}
	fs.mu.RUnlock()
	for _, n := range files {
		fs.renew(n)
	}
}

// readQuietly is Read without a handle.
func (fs *fileSystem) readQuietly(in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	fs.mu.RLock()
	n := fs.node(in.NodeId)
	if n == nil || n.isDir() {
		fs.mu.RUnlock()
		return nil, fuse.EBADF
	}
	data, head := n.content, n.head
	fs.mu.RUnlock()
	if n.generate == nil {
		data = nil
		if head != nil {
			var err error
			if data, err = fs.content(fs.ctx, n, head); err != nil {
				return nil, n.store.fail("read", head.Path(), err)
			}
		}
	}
	start := min(in.Offset, uint64(len(data)))
	end := min(start+uint64(len(buf)), uint64(len(data)))
	return fuse.ReadResultData(data[start:end]), fuse.OK
}

// refuseQuietly answers a write to a file that the kernel has let somebody open, or
// map, who made it believe that the mount may be written. The bytes are in its page
// cache, where all see them, and have to go.
func (fs *fileSystem) refuseQuietly(id uint64) fuse.Status {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n := fs.node(id); n != nil {
		fs.notify.content(n)
	}
	return fuse.EROFS
}
