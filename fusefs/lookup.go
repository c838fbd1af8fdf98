package fusefs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
	"mneme/memory"
)

// Lookup implements fuse.RawFileSystem.
func (fs *fileSystem) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if status, answered := fs.InlineLookup(header, name, out); answered {
		return status
	}
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err)
	}
	id, thread := header.NodeId, header.Pid
	return fs.beside(cancel, thread, func(c *call) fuse.Status {
		if status := fs.reach(c.ctx, id, canonical); !status.Ok() {
			return status
		}
		fs.mu.Lock()
		defer fs.mu.Unlock()
		dir := fs.node(id)
		switch {
		case dir == nil || !dir.isDir():
			return fuse.Status(syscall.ESTALE)
		case !c.answers():
			return fuse.EINTR
		}
		return fs.lookupLocked(dir, name, canonical, thread, out)
	})
}

// lookupLocked answers a thread that looks a name up.
func (fs *fileSystem) lookupLocked(dir *node, name, canonical string, thread uint32, out *fuse.EntryOut) fuse.Status {
	n := dir.children[canonical]
	if n == nil {
		delete(fs.retries, thread) // what was to be tried again ends here
		if dir.isTooLongLocked(canonical) {
			return fuse.Status(syscall.ENAMETOOLONG)
		}
		if canonical == name && oneForm(name) && dir.lacksLocked(name) {
			out.SetEntryTimeout(forever)
			return fuse.OK // a negative entry, which the kernel keeps
		}
		return fuse.ENOENT
	}
	if r := fs.retries[thread]; r != nil {
		r.looked = true
	}
	askedForLocked(dir, n, name)
	fs.replyLocked(n, canonical == name, out)
	return fuse.OK
}

// absent answers for a name that no file can have, because of err.
func absent(err error) fuse.Status {
	if errors.Is(err, memory.ErrPathTooLong) {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	return fuse.ENOENT
}

// replyLocked fills out an entry for n and counts the reference that the kernel
// gets. exact says that n was asked for by the name it has.
func (fs *fileSystem) replyLocked(n *node, exact bool, out *fuse.EntryOut) {
	cache := n.Cache()
	if cache.Lookups++; cache.Lookups == 1 {
		n.markLocked()
		fs.returning.knownLocked()
	}
	cache.Looked = kernelcache.Now()
	out.NodeId = n.id
	out.Generation = 1
	if exact && oneForm(n.name) {
		out.SetEntryTimeout(forever)
	}
	out.SetAttrTimeout(n.attrTimeoutLocked())
	fs.fillAttrLocked(n, &out.Attr)
}

// replyIfLocked is reply, if anybody waits for it.
func (fs *fileSystem) replyIfLocked(waits bool, n *node, exact bool, out *fuse.EntryOut) {
	if waits {
		fs.replyLocked(n, exact, out)
	}
}

// Forget implements fuse.RawFileSystem.
func (fs *fileSystem) Forget(id, count uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n := fs.node(id); n != nil {
		if n.lookups() > 0 {
			n.Cache().Lookups -= min(count, n.lookups())
		}
		fs.collectLocked(n)
	}
}
