package fusefs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// Rmdir implements fuse.RawFileSystem.
func (fs *fileSystem) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return fs.removeBeside(cancel, header, name, fs.rmdir)
}

func (fs *fileSystem) rmdir(ctx context.Context, dirID uint64, name, canonical string) fuse.Status {
	in, status := fs.directoryToChange(ctx, dirID)
	if !status.Ok() {
		return status
	}
	if status := fs.reachContent(ctx, dirID, name); !status.Ok() {
		return status
	}
	release, status := storeOf(in).claimDir(ctx, nameIn{in, name}) // so that it is not renamed meanwhile
	if !status.Ok() {
		return status
	}
	defer release()
	if ctx.Err() != nil {
		return fuse.EINTR
	}
	parent, n, path, status := fs.mayRmdir(dirID, canonical)
	if !status.Ok() {
		return status
	}
	if path != "" {
		status = storeOf(parent).removeDir(path)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n.SetRemovedLocked(false)
	switch {
	case n.ParentLocked() != parent || parent.ChildLocked(canonical) != n: // the follower has brought its removal
		return status
	case status != fuse.OK && status != fuse.ENOENT, n.CountLocked() > 0:
		return status
	}
	if path != "" {
		n.UnmarkLocked()
	}
	storeOf(parent).tree.RemovedDirLocked(parent, n, canonical, name)
	return status
}

// mayRmdir checks that a directory can be removed, in which nothing is made until the
// caller has done so, or not. The path is "" where the log does not have it itself.
func (fs *fileSystem) mayRmdir(dirID uint64, canonical string) (dir, n *tree.Entry, path string, status fuse.Status) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, status = fs.writableLocked(dirID)
	if !status.Ok() {
		return nil, nil, "", status
	}
	n = dir.ChildLocked(canonical)
	switch {
	case n == nil && dir == storeOf(dir).tree.Root() && canonical == memory.ReservedName:
		return nil, nil, "", fuse.EROFS
	case n == nil:
		return nil, nil, "", fuse.ENOENT
	case !n.IsDir():
		return nil, nil, "", fuse.ENOTDIR
	case n.CountLocked() > 0:
		return nil, nil, "", fuse.Status(syscall.ENOTEMPTY)
	}
	n.SetRemovedLocked(true)
	if n.MarkerLocked() != 0 && !n.HidesLocked() { // what is hidden there is still in the log
		path, _ = n.PathLocked()
	}
	return dir, n, path, fuse.OK
}

// removeDir commits the removal of a directory that the log has, which is empty here:
// fuse.OK when it is gone from the log.
func (s *store) removeDir(path string) fuse.Status {
	err := s.commit([]memory.Change{{Action: versionlog.Remove, Path: path + "/", Expect: versionlog.ExpectExists()}}, func(*versionlog.Commit) {})
	switch {
	case err == nil:
		return fuse.OK
	case isConflict(err):
		_ = s.catchUp(s.fs.ctx)
		return fuse.ENOENT
	case errors.Is(err, versionlog.ErrOverlap):
		_ = s.catchUp(s.fs.ctx) // so that a program that is told that the directory is not empty finds its entries
		return fuse.Status(syscall.ENOTEMPTY)
	}
	return s.fail("rmdir", path, err)
}

// removeEmptied takes directories out of the log that were removed here while they hid memories,
// and no longer hide any, unless something has come there. Callers hold no lock and no claim.
func (s *store) removeEmptied(emptied map[string]uint64) {
	paths := slices.Sorted(maps.Keys(emptied))
	for _, path := range slices.Backward(paths) { // what is in one, first
		if release, err := s.session.Claims().Take(s.fs.ctx, func() []session.Claim { return []session.Claim{{Path: path}} }); err == nil {
			s.removeEmptiedDir(path, emptied[path])
			release()
		}
	}
}

// removeEmptiedDir is removeEmptied for one, which the caller has claimed.
func (s *store) removeEmptiedDir(path string, marker uint64) {
	status := s.removeDir(path)
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	switch n := s.tree.FindDirLocked(path); {
	case status.Ok(), status == fuse.ENOENT:
	case n != nil:
		n.MarkedLocked(marker)
	default: // the log did not answer
		s.tree.StillEmptiedLocked(path, marker)
	}
}
