package fusefs

import (
	"errors"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// makeDir commits a directory, and answers the request that makes it.
func (fs *fileSystem) makeDir(asked *call, in *fuse.MkdirIn, name string, out *fuse.EntryOut) (n *tree.Entry, status fuse.Status) {
	fs.mu.Lock()
	dir, canonical, status := fs.newNameLocked(in.NodeId, name, 1)
	path, spelling := "", ""
	if status.Ok() {
		path, _ = dir.ChildPathLocked(canonical)
		spelling = dir.SpellingOfLocked(path+"/", name+"/")
		if dir.ChildLocked(canonical) != nil {
			status = fuse.Status(syscall.EEXIST)
		} else if err := fs.affordLocked(directoryCost, forScratch); err != nil {
			status = storeOf(dir).tooMuch("mkdir", canonical, err)
		}
	}
	if status.Ok() {
		if marker, there := storeOf(dir).tree.EmptiedThereLocked(dir, canonical, path); there {
			n = storeOf(dir).tree.MakeDirLocked(dir, canonical, in.Mode, time.Now(), marker)
			n.SpellLocked(name)
			fs.replyIfLocked(asked.answers(), n, canonical == name, out)
		}
	}
	fs.mu.Unlock()
	if !status.Ok() || n != nil {
		return n, status
	}
	s := storeOf(dir)
	made := memory.Change{Action: versionlog.MakeDir, Path: path + "/", Spelling: spelling, Expect: versionlog.ExpectAbsent()}
	//archtest:locked commit calls it with the lock
	err := s.commit([]memory.Change{made}, func(c *versionlog.Commit) {
		n = s.tree.MadeDirLocked(dir, canonical, path, in.Mode, &c.Versions[0])
		n.SpellLocked(name)
		fs.replyIfLocked(asked.answers(), n, canonical == name, out)
	})
	switch {
	case isConflict(err):
		return nil, fuse.Status(syscall.EEXIST) // the tree shows what is there, see showRefusalLocked
	case err != nil:
		return nil, s.fail("mkdir", path, err)
	}
	return n, fuse.OK
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
		_ = s.catchUp(s.fs.ctx) // so that whoever is told that the directory is not empty finds what is in it
		return fuse.Status(syscall.ENOTEMPTY)
	}
	return s.fail("rmdir", path, err)
}

// removeEmptied takes directories out of the log that were removed here while they hid
// memories, and hide none any more, unless something has come there. Callers hold no
// lock and no claim.
func (s *store) removeEmptied(emptied map[string]uint64) {
	paths := slices.Sorted(maps.Keys(emptied))
	for _, path := range slices.Backward(paths) { // what is in one, first
		status := fuse.EINTR
		if release, err := s.session.Claims().Take(s.fs.ctx, func() []session.Claim { return []session.Claim{{Path: path}} }); err == nil {
			status = s.removeDir(path)
			release()
		}
		s.fs.mu.Lock()
		if n := s.tree.FindDirLocked(path); n != nil && !status.Ok() && status != fuse.ENOENT {
			n.MarkedLocked(emptied[path])
		}
		s.fs.mu.Unlock()
	}
}
