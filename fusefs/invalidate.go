package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
	"mneme/internal/fusedev"
)

// invalidator tells the kernel what has changed of nodes. A notice goes out after the change
// that it is about. Its methods that have a node are called under fs.mu.
type invalidator struct{ *kernelcache.Notices }

// span is the notices that were enqueued after one and up to another.
type span struct{ after, upTo uint64 }

// entryLocked makes the kernel look name up in dir again, and read dir again. It
// returns the number of the first notice; 0 when none is needed.
func (q invalidator) entryLocked(dir *tree.Entry, name string) (number uint64) {
	dir.TouchLocked(dir.MTimeLocked())
	if lookupsOf(dir) > 0 {
		number = q.Name(dir.ID(), name)
		q.Content(dir.ID()) // its cached listing
	}
	return number
}

// attributesLocked makes the kernel ask for n's attributes again.
func (q invalidator) attributesLocked(n *tree.Entry) {
	if lookupsOf(n) > 0 {
		q.Attributes(n.ID())
	}
}

// contentLocked makes the kernel read n again: by a notice, for programs that have it
// open, and at the next open, which may come before the notice gets through. It
// returns the number of the notice.
func (q invalidator) contentLocked(n *tree.Entry) (number uint64) {
	if inodeOrNil(n) == nil {
		return 0
	}
	return cacheOf(n).Outdate(q.Notices, n.ID())
}

// birthLocked makes the kernel ask for the time of creation again where n, which is
// another memory than it was, has another.
func (q invalidator) birthLocked(n *tree.Entry) {
	if rebornLocked(n) {
		q.attributesLocked(n)
	}
}

// kernel is what a mount's connection leads to.
type kernel struct{ server *fusedev.Server }

// Forget implements kernelcache.Kernel.
func (k kernel) Forget(notices []kernelcache.Notice) (unknown bool) {
	messages := make([]fusedev.Notice, 0, len(notices))
	for _, n := range notices {
		switch {
		case n.Name != "":
			messages = append(messages, fusedev.EntryNotice(n.Inode, n.Name))
		case n.Pages:
			messages = append(messages, fusedev.InodeNotice(n.Inode, 0, 0))
		default:
			messages = append(messages, fusedev.InodeNotice(n.Inode, attributesOnly, 0))
		}
	}
	for i, status := range k.server.Notify(messages...) {
		unknown = unknown || notices[i].Name == "" && status == fuse.ENOENT
	}
	return unknown
}

// attributesOnly is an offset by which the kernel keeps the pages.
const attributesOnly = -1

// Store implements kernelcache.Kernel.
func (k kernel) Store(inode uint64, data []byte) (taken bool) {
	return k.server.InodeNotifyStoreCache(inode, 0, data).Ok()
}
