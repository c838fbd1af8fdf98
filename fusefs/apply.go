package fusefs

import (
	"strings"
	"time"

	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// apply brings a commit of another session into the tree and tells the kernel.
// Caller holds fs.mu.
func (s *store) apply(c *versionlog.Commit) {
	for _, v := range c.Versions { // what leaves makes room for what arrives
		if v.Op == versionlog.OpDeleted && !v.IsDir() {
			s.vacate(v.Path, v)
		}
	}
	for _, v := range c.Versions {
		if v.IsDir() {
			s.applyDir(v)
			continue
		}
		switch v.Op {
		case versionlog.OpCreated, versionlog.OpModified:
			s.place(v)
		case versionlog.OpRenamed:
			s.relocate(v)
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

// vacate makes a path absent because of v.
func (s *store) vacate(path string, v versionlog.Version) {
	if n := s.findHidden(path); n != nil && n.head.Seq() < v.Seq {
		s.reveal(n, path)
	}
	n := s.find(path)
	if !n.isMemory() || n.isMemorySince(v.Seq) {
		return
	}
	s.leave(n, v.Time)
}

// leave takes a file out of the tree that another session has removed.
// Caller holds fs.mu.
func (s *store) leave(n *node, at time.Time) {
	dir := n.parent
	n.noteWas()
	s.known.Left(n.was)
	s.fs.notify.entry(dir, n.name)
	s.fs.notify.attributes(n)
	dir.touch(at)
	s.fs.detach(n)
	s.prune(dir)
}

// vacated notes that c, of this mount, has removed or moved away what it frees.
// What another session has put there since the tree was asked is what c removed
// or moved; what another one makes there now the session does not know.
// Caller holds fs.mu.
func (s *store) vacated(c *versionlog.Commit) {
	for _, v := range c.Versions {
		freed := freedBy(v)
		if freed == "" {
			continue
		}
		if v.IsDir() {
			s.vacateDir(freed, v)
			continue
		}
		s.vacate(freed, v)
		s.note(freed, session.Nothing())
	}
}

// prune removes directories that only held what is gone.
func (s *store) prune(dir *node) {
	for dir != s.root && len(dir.children) == 0 && !dir.hides() && !dir.kept && dir.marker == 0 && dir.parent != nil {
		if !s.knows(dir) {
			s.doubt(dir)
			return
		}
		parent := dir.parent
		s.fs.notify.entry(parent, dir.name)
		s.fs.detach(dir)
		dir = parent
	}
}

// place makes v the head of its path.
func (s *store) place(v versionlog.Version) {
	if s.overtaken(v) {
		return
	}
	if n := s.findHidden(v.Path); n != nil {
		if n.head.Seq() >= v.Seq {
			return
		}
		s.reveal(n, v.Path) // somebody else wrote it: it is to be seen
	}
	dir, name := s.dirOf(&v)
	n := dir.children[name]
	if n != nil && n.isDir() { // empty, or holding only this mount's scratch files
		s.displace(n)
		n = nil
	}
	s.endHiddenDir(dir, name)
	if n == nil {
		n = s.fs.newNode(s, s.fileMode(&v), v.Time)
		attach(dir, name, n)
		n.setHead(memory.NewHead(&v), v.Spelling)
		s.known.Came(v.Path)
		dir.touch(v.Time)
		n.setNamed(s.fs.notify.entry(dir, name))
		return
	}
	if n.isMemorySince(v.Seq) {
		return
	}
	s.known.Came(v.Path)
	hides := n.isHidden()
	var hidden versionlog.Version
	if hides {
		hidden = n.version()
	}
	s.succeed(n, dir, name, v)
	if hides { // nobody can give it its name back any more
		s.unhide(n)
		s.place(hidden)
	}
}

// show brings a head that was read from the log into the tree, unless the tree
// has been told of it, and of what came after, by the follower.
// Caller holds fs.mu.
func (s *store) show(v versionlog.Version) {
	switch {
	case v.Seq <= s.applied && s.loading.done:
	case v.IsDir():
		s.placeDir(v)
	default:
		s.place(v)
	}
}

// relocate follows a rename.
func (s *store) relocate(v versionlog.Version) {
	n := s.find(v.From)
	known := n.isMemory() && n.head.OfMemory(&v) && !n.isMemorySince(v.Seq)
	free := s.find(v.Path) == nil && s.findHidden(v.Path) == nil && !s.overtaken(v)
	if known {
		s.known.Followed(v.From, v.Path, s.find(v.Path) == nil && s.findHidden(v.Path) == nil)
	}
	if !known || !free {
		s.vacate(v.From, v)
		s.place(v)
		return
	}
	from := n.parent
	delete(from.children, n.name) // first: the new path may lead through the old one
	s.fs.notify.entry(from, n.name)
	from.touch(v.Time)
	dir, name := s.dirOf(&v)
	s.endHiddenDir(dir, name)
	dir.touch(v.Time)
	m := s.succeed(n, dir, name, v)
	s.known.Came(v.Path)
	if m == n { // else succeed has told of the name
		m.setNamed(s.fs.notify.entry(dir, name))
	}
	s.prune(from)
}

// dirOf returns the directory that v's path is in, made where it is missing, and the name
// there.
func (s *store) dirOf(v *versionlog.Version) (dir *node, name string) {
	path, name := split(v.Path)
	dir = s.makeDirs(path, v.Time)
	s.spellDirs(dir, v)
	return dir, name
}

// makeDirs returns the directory of a path, made where it is missing. A file
// in the way is one that this mount has not committed, or one that was read
// from the log and is gone there by now.
func (s *store) makeDirs(path string, at time.Time) *node {
	dir := s.root
	if path == "" {
		return dir
	}
	for end := range segmentEnds(path) {
		_, name := split(path[:end])
		n := dir.children[name]
		if n != nil && !n.isDir() {
			s.displace(n)
			n = nil
		}
		if n == nil {
			n = s.newChild(dir, path[:end], s.dirMode(path[:end]), at)
			dir.touch(at)
		}
		dir = n
	}
	return dir
}

// displace takes n, with what is below it, out of the tree, because another
// session has put something else in its place. Caller holds fs.mu.
func (s *store) displace(n *node) {
	n.noteWas()
	s.fs.notify.entry(n.parent, n.name)
	s.fs.detach(n)
	s.displaced(n)
}

// displaced keeps what the session knows of n and all below it, and shows again
// what was hidden there. Caller holds fs.mu.
func (s *store) displaced(n *node) {
	switch {
	case n.isHidden():
		s.unhide(n)
		s.place(n.version())
	case n.isMemory():
		s.known.Left(n.was)
	}
	for name, h := range n.hidden { // what is there instead says that it is gone
		s.reveal(h, n.was+"/"+name)
	}
	for _, d := range n.hiddenDirs {
		s.displaced(d)
	}
	for _, c := range n.children {
		s.displaced(c)
	}
}

// endHiddenDir is displaced for what is hidden in a directory that had a name
// which another session has given to a file. Caller holds fs.mu.
func (s *store) endHiddenDir(dir *node, name string) {
	if d := dir.hiddenDirs[name]; d != nil {
		d.noteWas()
		s.displaced(d)
	}
}

// noteWas notes the paths of n and all below it, for those who write there.
// Caller holds fs.mu.
func (n *node) noteWas() {
	if path, ok := n.path(); ok {
		n.setAside().was = path
	}
	for _, c := range n.children {
		c.noteWas()
	}
	for _, d := range n.hiddenDirs {
		d.noteWas()
	}
}

// touch notes that n has changed, in what it lists or holds. By its mtime the
// kernel tells whether what it has cached is still so, so that no two are equal.
func (n *node) touch(at time.Time) {
	if !at.After(n.mtime) {
		at = n.mtime.Add(1)
	}
	n.mtime, n.ctime = at, at
	n.mark()
}
