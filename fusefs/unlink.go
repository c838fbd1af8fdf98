package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/versionlog"
)

// Unlink implements fuse.RawFileSystem. It removes the version that the session
// knows or, of a memory that it never read, whatever is there: the history
// keeps it.
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
	_ = s.catchUp() // the commit will tell
	if s.readOnly() {
		return fuse.EROFS
	}
	if status := fs.reach(header.NodeId, name); !status.Ok() {
		return status
	}
	s.ops.Lock()
	defer s.ops.Unlock()
	fs.mu.Lock()
	n := dir.children[canonical]
	if n != nil && !n.isDir() && n.seen.stale(n.head) && (!n.local || n.origin != nil) {
		defer fs.mu.Unlock()
		return s.refuseStale(n, n.head)
	}
	fs.mu.Unlock()
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

// remove takes n out of the tree, and deletes what it is in the log, if
// anything. That somebody else deleted or, where n is only hidden, rewrote it,
// is no error: the tree will show it. That somebody else rewrote what the
// session knows is a conflict. Caller holds s.ops.
func (s *store) remove(n *node) error {
	path, head, expect := s.removal(n)
	if path == "" {
		return nil
	}
	err := s.commit([]memory.Change{{Action: versionlog.Remove, Path: path, Expect: expect}}, func(c *versionlog.Commit) {
		s.unhide(n)
		s.fs.unlinked(n)
		s.vacateOther(path, n, c.Versions[0])
	})
	if isConflict(err) {
		s.fs.mu.Lock()
		defer s.fs.mu.Unlock()
		if now, _ := conflictHead(err, path); now != nil && n.origin == nil && n.seen.known {
			return err
		}
		if n.head == head { // else it is what somebody has made there since
			s.unhide(n)
			s.fs.unlinked(n)
		}
		return nil
	}
	return err
}

// removal says what has to be removed from the log for n to go, under which
// expectation. Of a file that is not in the log there is nothing, and it goes
// at once.
func (s *store) removal(n *node) (path string, head *versionlog.Version, expect versionlog.Expectation) {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	path, ok := n.path()
	expect = versionlog.ExpectExists()
	if n.origin != nil {
		path, ok = n.origin.dir.childPath(n.origin.name)
		expect = versionlog.ExpectVersion(n.head.ID)
	} else if ok && !n.local && n.head != nil && n.seen.known {
		expect = versionlog.ExpectVersion(n.head.ID)
	}
	if !ok || n.local && n.origin == nil {
		s.unhide(n)
		s.fs.unlinked(n)
		return "", nil, expect
	}
	return path, n.head, expect
}
