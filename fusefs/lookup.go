package fusefs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
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
		case dir == nil || !dir.IsDir():
			return fuse.Status(syscall.ESTALE)
		case !c.answers():
			return fuse.EINTR
		}
		return fs.lookupLocked(dir, name, canonical, thread, out)
	})
}

// lookupLocked answers a thread that looks a name up.
func (fs *fileSystem) lookupLocked(dir *tree.Entry, name, canonical string, thread uint32, out *fuse.EntryOut) fuse.Status {
	n := dir.ChildLocked(canonical)
	if n == nil {
		delete(fs.retries, thread) // what was to be tried again ends here
		if dir.IsTooLongLocked(canonical) {
			return fuse.Status(syscall.ENAMETOOLONG)
		}
		if canonical == name && tree.HasOneForm(name) && dir.LacksLocked(name) {
			out.SetEntryTimeout(forever)
			return fuse.OK // a negative entry, which the kernel keeps
		}
		return fuse.ENOENT
	}
	if r := fs.retries[thread]; r != nil {
		r.looked = true
	}
	tree.AskedForLocked(dir, n, name)
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
func (fs *fileSystem) replyLocked(n *tree.Entry, exact bool, out *fuse.EntryOut) {
	cache := cacheOf(n)
	if cache.Lookups++; cache.Lookups == 1 {
		markLocked(n)
		fs.returning.knownLocked()
	}
	cache.Looked = kernelcache.Now()
	n.SetLengthToldLocked(true)
	out.NodeId = n.ID()
	out.Generation = 1
	if exact && tree.HasOneForm(n.NameLocked()) {
		out.SetEntryTimeout(forever)
	}
	out.SetAttrTimeout(attrTimeoutLocked(n))
	fs.fillAttrLocked(n, &out.Attr)
}

// replyIfLocked is reply, if a requester waits for it.
func (fs *fileSystem) replyIfLocked(waits bool, n *tree.Entry, exact bool, out *fuse.EntryOut) {
	if waits {
		fs.replyLocked(n, exact, out)
	}
}

// Forget implements fuse.RawFileSystem.
func (fs *fileSystem) Forget(id, count uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n := fs.node(id); n != nil {
		if lookupsOf(n) > 0 {
			cacheOf(n).Lookups -= min(count, lookupsOf(n))
		}
		fs.collectLocked(n)
	}
}
