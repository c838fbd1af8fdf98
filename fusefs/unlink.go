package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/versionlog"
)

// Unlink implements fuse.RawFileSystem. It removes whatever version is the
// head: the history keeps it.
func (fs *fileSystem) Unlink(_ <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return fuse.ENOENT
	}
	fs.mu.RLock()
	dir, status := fs.writable(header.NodeId)
	fs.mu.RUnlock()
	if !status.Ok() {
		return status
	}
	s := dir.store
	s.ops.Lock()
	defer s.ops.Unlock()
	fs.mu.RLock()
	n := dir.children[canonical]
	fs.mu.RUnlock()
	switch {
	case n == nil:
		return fuse.ENOENT
	case n.isDir():
		return fuse.Status(syscall.EISDIR)
	}
	if err := s.remove(n); err != nil {
		return s.fail("remove", fs.where(n), err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.unlinked(n)
	if canonical != name {
		fs.notify.entry(dir, canonical)
	}
	return fuse.OK
}

// unlinked takes n out of the tree. Caller holds fs.mu.
func (fs *fileSystem) unlinked(n *node) {
	n.removed = true
	n.ctime = time.Now()
	if n.parent != nil {
		n.parent.touch(n.ctime)
		n.parent.kept = true
	}
	fs.detach(n)
}

// remove deletes what n is in the log, if anything. That somebody else deleted
// or, where n is only hidden, rewrote it, is no error: the tree will show it.
// Caller holds s.ops.
func (s *store) remove(n *node) error {
	s.fs.mu.RLock()
	path, ok := n.path()
	expect := versionlog.ExpectExists()
	if n.origin != nil {
		path, ok = n.origin.dir.childPath(n.origin.name)
		expect = versionlog.ExpectVersion(n.head.ID)
	} else if n.local {
		ok = false
	}
	s.fs.mu.RUnlock()
	if !ok {
		return nil
	}
	err := s.commit([]memory.Change{{Action: versionlog.Remove, Path: path, Expect: expect}}, func(*versionlog.Commit) {
		s.unhide(n)
	})
	if isConflict(err) {
		return nil
	}
	return err
}
