package fusefs

import (
	"strings"
	"time"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// applyLocked brings a commit of another session into the tree and tells the kernel.
func (s *store) applyLocked(c *versionlog.Commit) {
	for _, v := range c.Versions { // what leaves makes room for what arrives
		if v.Op == versionlog.OpDeleted && !v.IsDir() {
			s.vacateLocked(v.Path, v)
		}
	}
	for _, v := range c.Versions {
		if v.IsDir() {
			s.applyDirLocked(v)
			continue
		}
		switch v.Op {
		case versionlog.OpCreated, versionlog.OpModified:
			s.placeLocked(v)
		case versionlog.OpRenamed:
			s.relocateLocked(v)
		}
	}
}

// find returns the node at a path, or nil.
func (s *store) find(path string) *node {
	n := s.root
	for name := range strings.SplitSeq(path[1:], "/") {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// vacateLocked makes a path absent because of v.
func (s *store) vacateLocked(path string, v versionlog.Version) {
	if n := s.findHidden(path); n != nil && n.head.Seq() < v.Seq {
		s.revealLocked(n, path)
	}
	n := s.find(path)
	if !n.isMemory() || n.isMemorySince(v.Seq) {
		return
	}
	s.leaveLocked(n, v.Time)
}

// leaveLocked takes a file out of the tree that another session has removed.
func (s *store) leaveLocked(n *node, at time.Time) {
	dir := n.parent
	n.noteWasLocked()
	s.known.Left(n.was)
	s.fs.notify.entryLocked(dir, n.name)
	s.fs.notify.attributesLocked(n)
	dir.touchLocked(at)
	s.fs.detachLocked(n)
	s.pruneLocked(dir)
}

// vacatedLocked notes that c, of this mount, has removed or moved away what it frees.
// What another session has put there since the tree was asked is what c removed
// or moved; what another one makes there now the session does not know.
func (s *store) vacatedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		freed := freedBy(v)
		if freed == "" {
			continue
		}
		if v.IsDir() {
			s.vacateDirLocked(freed, v)
			continue
		}
		s.vacateLocked(freed, v)
		s.noteLocked(freed, session.Nothing())
	}
}

// pruneLocked removes directories that only held what is gone.
func (s *store) pruneLocked(dir *node) {
	for dir != s.root && len(dir.children) == 0 && !dir.hides() && !dir.kept && dir.marker == 0 && dir.parent != nil {
		if !s.knowsLocked(dir) {
			s.doubtLocked(dir)
			return
		}
		parent := dir.parent
		s.fs.notify.entryLocked(parent, dir.name)
		s.fs.detachLocked(dir)
		dir = parent
	}
}

// placeLocked makes v the head of its path.
func (s *store) placeLocked(v versionlog.Version) {
	if s.overtakenLocked(v) {
		return
	}
	if n := s.findHidden(v.Path); n != nil {
		if n.head.Seq() >= v.Seq {
			return
		}
		s.revealLocked(n, v.Path) // somebody else wrote it: it is to be seen
	}
	dir, name := s.dirOfLocked(&v)
	n := dir.children[name]
	if n != nil && n.isDir() { // empty, or holding only this mount's scratch files
		s.displaceLocked(n)
		n = nil
	}
	s.endHiddenDirLocked(dir, name)
	if n == nil {
		n = s.fs.newNode(s, s.fileMode(&v), v.Time)
		attachLocked(dir, name, n)
		n.setHeadLocked(memory.NewHead(&v), v.Spelling)
		s.known.Came(v.Path)
		dir.touchLocked(v.Time)
		n.setNamed(s.fs.notify.entryLocked(dir, name))
		return
	}
	if n.isMemorySince(v.Seq) {
		return
	}
	s.known.Came(v.Path)
	hides := n.isHidden()
	var hidden versionlog.Version
	if hides {
		hidden = n.versionLocked()
	}
	s.succeedLocked(n, dir, name, v)
	if hides { // nobody can give it its name back any more
		s.unhideLocked(n)
		s.placeLocked(hidden)
	}
}

// showLocked brings a head that was read from the log into the tree, unless the tree
// has been told of it, and of what came after, by the follower.
func (s *store) showLocked(v versionlog.Version) {
	switch {
	case v.Seq <= s.applied && s.loading.done:
	case v.IsDir():
		s.placeDirLocked(v)
	default:
		s.placeLocked(v)
	}
}

// relocateLocked follows a rename.
func (s *store) relocateLocked(v versionlog.Version) {
	n := s.find(v.From)
	known := n.isMemory() && n.head.OfMemory(&v) && !n.isMemorySince(v.Seq)
	free := s.find(v.Path) == nil && s.findHidden(v.Path) == nil && !s.overtakenLocked(v)
	if known {
		s.known.Followed(v.From, v.Path, s.find(v.Path) == nil && s.findHidden(v.Path) == nil)
	}
	if !known || !free {
		s.vacateLocked(v.From, v)
		s.placeLocked(v)
		return
	}
	from := n.parent
	delete(from.children, n.name) // first: the new path may lead through the old one
	s.fs.notify.entryLocked(from, n.name)
	from.touchLocked(v.Time)
	dir, name := s.dirOfLocked(&v)
	s.endHiddenDirLocked(dir, name)
	dir.touchLocked(v.Time)
	m := s.succeedLocked(n, dir, name, v)
	s.known.Came(v.Path)
	if m == n { // else succeed has told of the name
		m.setNamed(s.fs.notify.entryLocked(dir, name))
	}
	s.pruneLocked(from)
}

// dirOfLocked returns the directory that v's path is in, made where it is missing, and the name
// there.
func (s *store) dirOfLocked(v *versionlog.Version) (dir *node, name string) {
	path, name := split(v.Path)
	dir = s.makeDirsLocked(path, v.Time)
	s.spellDirsLocked(dir, v)
	return dir, name
}

// makeDirsLocked returns the directory of a path, made where it is missing. A file
// in the way is one that this mount has not committed, or one that was read
// from the log and is gone there by now.
func (s *store) makeDirsLocked(path string, at time.Time) *node {
	dir := s.root
	if path == "" {
		return dir
	}
	for end := range segmentEnds(path) {
		_, name := split(path[:end])
		n := dir.children[name]
		if n != nil && !n.isDir() {
			s.displaceLocked(n)
			n = nil
		}
		if n == nil {
			n = s.newChildLocked(dir, path[:end], s.dirMode(path[:end]), at)
			dir.touchLocked(at)
		}
		dir = n
	}
	return dir
}

// displaceLocked takes n, with what is below it, out of the tree, because another
// session has put something else in its place.
func (s *store) displaceLocked(n *node) {
	n.noteWasLocked()
	s.fs.notify.entryLocked(n.parent, n.name)
	s.fs.detachLocked(n)
	s.displacedLocked(n)
}

// displacedLocked keeps what the session knows of n and all below it, and shows again
// what was hidden there.
func (s *store) displacedLocked(n *node) {
	switch {
	case n.isHidden():
		s.unhideLocked(n)
		s.placeLocked(n.versionLocked())
	case n.isMemory():
		s.known.Left(n.was)
	}
	for name, h := range n.hidden { // what is there instead says that it is gone
		s.revealLocked(h, n.was+"/"+name)
	}
	for _, d := range n.hiddenDirs {
		s.displacedLocked(d)
	}
	for _, c := range n.children {
		s.displacedLocked(c)
	}
}

// endHiddenDirLocked is displaced for what is hidden in a directory that had a name
// which another session has given to a file.
func (s *store) endHiddenDirLocked(dir *node, name string) {
	if d := dir.hiddenDirs[name]; d != nil {
		d.noteWasLocked()
		s.displacedLocked(d)
	}
}

// noteWasLocked notes the paths of n and all below it, for those who write there.
func (n *node) noteWasLocked() {
	if path, ok := n.path(); ok {
		n.setAside().was = path
	}
	for _, c := range n.children {
		c.noteWasLocked()
	}
	for _, d := range n.hiddenDirs {
		d.noteWasLocked()
	}
}

// touchLocked notes that n has changed, in what it lists or holds. By its mtime the
// kernel tells whether what it has cached is still so, so that no two are equal.
func (n *node) touchLocked(at time.Time) {
	if !at.After(n.mtime) {
		at = n.mtime.Add(1)
	}
	n.mtime, n.ctime = at, at
	n.markLocked()
}
