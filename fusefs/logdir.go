package fusefs

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// A directory is in the log itself: mkdir and rmdir are commits, of which one of several
// sessions makes the first. It stays when what was in it goes. A directory that the log
// does not have, since only memories imply it, goes with the last of them, but from the
// mounts that made that happen, where it stays until they end.

// placeDirLocked makes a directory of the log be in the tree.
func (s *store) placeDirLocked(v versionlog.Version) {
	path := strings.TrimSuffix(v.Path, "/")
	if s.gone[v.Path] > v.Seq {
		return // removed since
	}
	if n := s.findHidden(path); n != nil && n.head.Seq() < v.Seq {
		s.revealLocked(n, path)
	}
	n := s.makeDirsLocked(path, v.Time)
	if n.marker < v.Seq {
		n.marker = v.Seq
		s.spellDirsLocked(n, &v)
	}
}

// vacateDirLocked takes a directory out of the tree that v has removed or moved away, unless
// something is in it here.
func (s *store) vacateDirLocked(path string, v versionlog.Version) {
	n := s.findDirLocked(strings.TrimSuffix(path, "/"))
	if n == nil || n == s.root || n.marker >= v.Seq {
		return
	}
	n.marker = 0
	n.keepLocked(false)
	s.pruneLocked(n)
}

// applyDirLocked brings a version of a directory into the tree.
func (s *store) applyDirLocked(v versionlog.Version) {
	if freed := freedBy(v); freed != "" {
		s.vacateDirLocked(freed, v)
	}
	if v.Live() {
		s.placeDirLocked(v)
	}
}

// learnDirLocked is learn for a directory.
func (s *store) learnDirLocked(v versionlog.Version) bool {
	path := strings.TrimSuffix(v.Path, "/")
	own := s.fs.opts.Session
	switch {
	case s.gone[v.Path] > v.Seq:
		return s.findDirLocked(path) != nil
	case own != "" && v.Session == own && v.Seq > s.applied:
		return true
	}
	s.placeDirLocked(v)
	return true
}

// makeDir commits a directory, and answers the request that makes it.
func (fs *fileSystem) makeDir(asked *call, in *fuse.MkdirIn, name string, out *fuse.EntryOut) (n *node, status fuse.Status) {
	fs.mu.Lock()
	dir, canonical, status := fs.placeLocked(in.NodeId, name, 1)
	path, spelling := "", ""
	if status.Ok() {
		path, _ = dir.childPath(canonical)
		spelling = dir.spellingOfLocked(path+"/", name+"/")
		if dir.children[canonical] != nil {
			status = fuse.Status(syscall.EEXIST)
		} else if err := fs.affordLocked(directoryCost, forScratch); err != nil {
			status = dir.store.tooMuch("mkdir", canonical, err)
		}
	}
	if status.Ok() {
		hidden, marker := dir.hiddenDirs[canonical], dir.store.emptied[path]
		if hidden != nil {
			marker = hidden.marker
		}
		if hidden != nil || marker != 0 { // the log still has it
			delete(dir.store.emptied, path)
			n = fs.newDirLocked(dir, canonical, in.Mode, time.Now(), marker)
			n.spellLocked(name)
			fs.replyIfLocked(asked.answers(), n, canonical == name, out)
		}
	}
	fs.mu.Unlock()
	if !status.Ok() || n != nil {
		return n, status
	}
	s := dir.store
	made := memory.Change{Action: versionlog.MakeDir, Path: path + "/", Spelling: spelling, Expect: versionlog.ExpectAbsent()}
	//archtest:locked commit calls it with the lock
	err := s.commit([]memory.Change{made}, func(c *versionlog.Commit) {
		n = fs.madeDirLocked(dir, canonical, path, in.Mode, &c.Versions[0])
		n.spellLocked(name)
		fs.replyIfLocked(asked.answers(), n, canonical == name, out)
	})
	switch {
	case isConflict(err):
		return nil, fuse.Status(syscall.EEXIST) // the tree shows what is there, see learnOfConflictLocked
	case err != nil:
		return nil, s.fail("mkdir", path, err)
	}
	return n, fuse.OK
}

// madeDirLocked brings a directory into the tree that this mount has made in the log. The
// directory that it is in may have been moved or removed meanwhile by another session.
func (fs *fileSystem) madeDirLocked(dir *node, name, path string, mode uint32, v *versionlog.Version) *node {
	s := dir.store
	if at, ok := dir.childPath(name); !ok || at != path || dir.children[name] != nil {
		s.placeDirLocked(*v)
		n := s.findDirLocked(path)
		n.mode = n.mode&^0o777 | mode&0o777
		return n
	}
	return fs.newDirLocked(dir, name, mode, v.Time, v.Seq)
}

// newDirLocked makes the node of a directory in which nothing is.
func (fs *fileSystem) newDirLocked(dir *node, name string, mode uint32, at time.Time, marker uint64) *node {
	n := fs.newNode(dir.store, syscall.S_IFDIR|mode&0o777, at)
	n.marker, n.kept, n.made, n.complete = marker, true, true, true
	attachLocked(dir, name, n)
	dir.touchLocked(at)
	return n
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
		if release, err := s.claims.Take(s.fs.ctx, func() []session.Claim { return []session.Claim{{Path: path}} }); err == nil {
			status = s.removeDir(path)
			release()
		}
		s.fs.mu.Lock()
		if n := s.findDirLocked(path); n != nil && !status.Ok() && status != fuse.ENOENT {
			n.marker = max(n.marker, emptied[path])
		}
		s.fs.mu.Unlock()
	}
}

// takeMarkerLocked returns the marker of a directory that was yet to be taken out of the log and
// comes back, so that it stays there; 0 for others.
func (s *store) takeMarkerLocked(path string) uint64 {
	marker := s.emptied[path]
	delete(s.emptied, path)
	return marker
}

// hasMarkersLocked reports whether the log has the directory itself, or one below it.
func (n *node) hasMarkersLocked() bool {
	if n.marker != 0 {
		return true
	}
	for _, c := range n.children {
		if c.isDir() && c.hasMarkersLocked() {
			return true
		}
	}
	return false
}

// rmdirLocked takes an empty directory out of the tree.
func (fs *fileSystem) rmdirLocked(dir, n *node, canonical, name string) {
	n.removed = true
	dir.touchLocked(time.Now())
	dir.keepLocked(true)
	dir.markLocked()
	if canonical != name {
		fs.notify.entryLocked(dir, canonical)
	}
	if n.hides() {
		n.hideDir()
	} else {
		fs.detachLocked(n)
	}
}

// settleLocked notes that a memory has landed in dir: from now on the directory
// exists because of it.
func (n *node) settleLocked() {
	for ; n != nil; n = n.parent {
		n.keepLocked(false)
	}
}
