package fusefs

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// Unlink implements fuse.RawFileSystem. It removes the version that the session
// knows or, of a memory that it never read, whatever is there: the history
// keeps it.
func (fs *fileSystem) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return fs.removeBeside(cancel, header, name, fs.unlink)
}

// removeBeside makes remove take a name out of a directory, next to the requester.
func (fs *fileSystem) removeBeside(cancel <-chan struct{}, header *fuse.InHeader, name string,
	remove func(ctx context.Context, dirID uint64, name, canonical string) fuse.Status,
) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err)
	}
	id := header.NodeId
	return fs.beside(cancel, header.Pid, func(c *call) fuse.Status {
		defer fs.tellUnheard(c, kernelName{id, name})
		return remove(c.ctx, id, name, canonical)
	})
}

func (fs *fileSystem) unlink(ctx context.Context, dirID uint64, name, canonical string) fuse.Status {
	dir, status := fs.directoryToChange(ctx, dirID)
	if !status.Ok() {
		return status
	}
	s := storeOf(dir)
	if status := fs.reach(ctx, dirID, name); !status.Ok() {
		return status
	}
	release, status := s.claimNames(ctx, nameIn{dir, name})
	if !status.Ok() {
		return status
	}
	defer s.dropSettled()
	defer release()
	if ctx.Err() != nil {
		return fuse.EINTR
	}
	fs.mu.Lock()
	n, path := dir.ChildLocked(canonical), ""
	if n != nil {
		path, _ = n.LogPathLocked()
	}
	if n.InLogLocked() {
		if status := s.admitRemovalLocked(n); !status.Ok() {
			fs.mu.Unlock()
			return status
		}
	}
	fs.mu.Unlock()
	switch {
	case n == nil:
		return fuse.ENOENT
	case n.IsDir():
		return fuse.Status(syscall.EISDIR)
	}
	if err := s.remove(n, path); err != nil {
		return s.fail("remove", fs.where(n), err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if canonical != name {
		fs.notify.entryLocked(dir, canonical)
	}
	return fuse.OK
}

// unlinkedLocked takes n out of the tree.
func (fs *fileSystem) unlinkedLocked(n *tree.Entry) {
	if n.KnownByItselfLocked() { // what made it is as if it had not been
		storeOf(n).known.Set(n.KnownAtLocked(), session.Knowledge{})
	}
	storeOf(n).unspoolLocked(n)
	storeOf(n).tree.RemovedLocked(n)
}

// remove takes n out of the tree, and deletes its memory in the log, if it has one, at the path
// where the caller has seen it. If another session rewrote the version that this session knows,
// that is a conflict; a memory that another session has removed or renamed is not there. Where n
// is only hidden, neither is an error: the tree will show it. The caller has claimed both.
func (s *store) remove(n *tree.Entry, path string) error {
	n, path, head, expect := s.removal(n, path)
	if path == "" {
		s.fs.mu.RLock()
		defer s.fs.mu.RUnlock()
		if n.IsRemovedLocked() {
			return nil
		}
		return syscall.ENOENT
	}
	//archtest:locked commit calls it with the lock
	err := s.commit([]memory.Change{{Action: versionlog.Remove, Path: path, Expect: expect}}, func(*versionlog.Commit) {
		n := n.LatestLocked()
		if at, ok := n.LogPathLocked(); ok && at != path {
			return // another session has moved it there, and made what is removed here
		}
		s.tree.UnhideLocked(n)
		s.fs.unlinkedLocked(n)
		s.errors.Written(path)
	})
	if !isConflict(err) {
		return err
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	there, _ := versionlog.ConflictAt(err, path)
	switch {
	case n.IsUnloggedLocked(): // hidden when it was to go: what it hid is shown
		s.tree.UnhideLocked(n)
		s.fs.unlinkedLocked(n)
		return nil
	case there != nil:
		return err
	case n.HeadLocked() == head && n.ParentLocked() != nil:
		s.tree.LeftLocked(n, time.Now())
	}
	return syscall.ENOENT
}

// removal says what must be removed from the log so that n, or the file that has now taken its
// place, goes, and under which expectation. Nothing is removed from the log for a file that is
// not in it: that file goes at once. Nothing is removed for a file that is gone either, or for
// one that the log now has at another path than at.
func (s *store) removal(n *tree.Entry, at string) (now *tree.Entry, path string, head *memory.Head, expect versionlog.Expectation) {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	n = n.LatestLocked()
	path, ok := n.LogPathLocked()
	expect = versionlog.ExpectExists()
	if n.IsHiddenLocked() {
		expect = versionlog.ExpectVersion(n.HeadLocked().ID())
	} else if ok && n.IsMemoryLocked() && knownLocked(n).IsKnown() {
		expect = versionlog.ExpectVersion(n.HeadLocked().ID())
		if known := knownLocked(n).Expected(n.HeadLocked()); known != nil {
			expect = versionlog.ExpectVersion(known.ID())
		}
	}
	switch {
	case n.IsMountOnlyLocked() || n.IsHiddenLocked() && !ok:
		s.tree.UnhideLocked(n)
		s.fs.unlinkedLocked(n)
		return n, "", nil, expect
	case !ok || path != at:
		return n, "", nil, expect
	}
	return n, path, n.HeadLocked(), expect
}
