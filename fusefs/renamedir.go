package fusefs

import (
	"cmp"
	"syscall"

	"mneme/memory"
	"mneme/versionlog"
)

// renameDir moves a directory with all memories below it in one commit.
func (fs *fileSystem) renameDir(m *move) error {
	end, err := m.s.movePrivate(m.fromPath, m.toPath+"/"+m.new)
	if err != nil {
		return err
	}
	err = fs.moveDir(m)
	end(err == nil)
	return err
}

func (fs *fileSystem) moveDir(m *move) error {
	from, to, done, err := fs.beginRenameDir(m)
	if done || err != nil {
		return err
	}
	for range 5 { // what other sessions write meanwhile moves along
		err = m.s.commitWith(versionlog.NewKey(), func(opts *memory.CommitOptions) (*versionlog.Commit, error) {
			return m.s.memory.Rename(fs.ctx, from, to, opts)
			//archtest:locked commitWith calls it with the lock
		}, func(c *versionlog.Commit) {
			moved := movedBy(c)
			stay := newcomersLocked(m.n, moved)
			loose, dirs := strayDirsLocked(m.n, moved)
			if t := m.to.children[m.new]; t != nil && t != m.n {
				stay = append(stay, newcomersLocked(t, moved)...)
				dirs = append(dirs, markedBelowLocked(t)...)
			}
			m.s.uncoverLocked(m.n, moved)
			follow := m.s.knownBelowLocked(m.n)
			for _, v := range c.Versions {
				if !v.IsDir() {
					m.s.known.Moved(v.From, v.Path)
				}
			}
			fs.takeLocked(m)
			follow()
			for _, n := range stay { // first: what has moved may have to go where they are
				m.s.putBackLocked(n.file, n.path)
			}
			for _, d := range dirs {
				n := m.s.makeDirsLocked(d.path, c.Time)
				n.marker = max(n.marker, d.marker)
			}
			m.s.renamedLocked(c)
			m.to.settleLocked()
			for _, n := range loose {
				n.keepLocked(false)
				m.s.pruneLocked(n)
			}
		})
		if !isConflict(err) {
			break
		}
	}
	return err
}

// beginRenameDir checks the rename of a directory against the tree. One that
// holds no memories moves at once, under the same lock, so that none can arrive
// in between. The new path is spelled as the program does.
func (fs *fileSystem) beginRenameDir(m *move) (from, to string, done bool, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	from, fromOK := m.n.path()
	to, toOK := m.to.childPath(m.new)
	target := m.to.children[m.new]
	switch {
	case !fromOK || !toOK: // pruned by another session's commit
		return "", "", false, syscall.ENOENT
	case target != nil && !target.isDir():
		return "", "", false, syscall.ENOTDIR
	case target != nil && (len(target.children) > 0 || target.hides()):
		return "", "", false, syscall.ENOTEMPTY
	case m.n.holdsMemoriesLocked() || m.n.hasMarkersLocked():
		return from, cmp.Or(m.to.spellingOfLocked(to, m.as), to), false, nil
	}
	follow := m.s.knownBelowLocked(m.n)
	fs.takeLocked(m)
	follow()
	return from, to, true, nil
}

// movedBy has the paths from which c moves memories, with its sequence number.
func movedBy(c *versionlog.Commit) map[string]uint64 {
	moved := make(map[string]uint64, len(c.Versions))
	for _, v := range c.Versions {
		moved[v.From] = c.Seq
	}
	return moved
}

// uncoverLocked ends what is hidden below dir, and has not been moved: another session
// has moved or removed it before, of which the follower has yet to tell.
func (s *store) uncoverLocked(dir *node, moved map[string]uint64) {
	for name, n := range dir.hidden {
		if path, ok := dir.childPath(name); ok && moved[path] == 0 {
			s.revealLocked(n, path)
		}
	}
	for _, d := range dir.hiddenDirs {
		s.uncoverLocked(d, moved)
	}
	for _, child := range dir.children {
		s.uncoverLocked(child, moved)
	}
}

// newcomer is a file below a directory that a rename moves or replaces, which
// another session has made there since the commit that renames was drawn up.
type newcomer struct {
	file *node
	path string
}

// newcomersLocked returns the memories below dir that have not been moved, or that have
// come where something was: heads that load may be newer than the commit that moved
// it.
func newcomersLocked(dir *node, moved map[string]uint64) []newcomer {
	var found []newcomer
	var walk func(*node)
	walk = func(n *node) {
		for _, child := range n.children {
			walk(child)
		}
		if path, ok := n.path(); ok && n.isMemorySince(moved[path]+1) {
			found = append(found, newcomer{n, path})
		}
	}
	walk(dir)
	return found
}

// markedDir is a directory that the log has itself, at a path where a rename does not
// leave its node.
type markedDir struct {
	path   string
	marker uint64
}

// strayDirsLocked ends what directories at and below dir are to the log that a rename has not
// moved: they are to stay where another session has made them or, until the follower
// tells that it has moved or removed them, has had them.
func strayDirsLocked(dir *node, moved map[string]uint64) (stray []*node, stay []markedDir) {
	if path, ok := dir.path(); ok && dir.marker > moved[path+"/"] {
		stay = append(stay, markedDir{path, dir.marker})
		dir.marker = 0
		stray = append(stray, dir)
	}
	for _, below := range []map[string]*node{dir.children, dir.hiddenDirs} {
		for _, child := range below {
			if child.isDir() {
				more, stays := strayDirsLocked(child, moved)
				stray, stay = append(stray, more...), append(stay, stays...)
			}
		}
	}
	return stray, stay
}

// markedBelowLocked returns the directories below dir that the log has itself.
func markedBelowLocked(dir *node) (marked []markedDir) {
	for _, child := range dir.children {
		if !child.isDir() {
			continue
		}
		if path, ok := child.path(); ok && child.marker != 0 {
			marked = append(marked, markedDir{path, child.marker})
		}
		marked = append(marked, markedBelowLocked(child)...)
	}
	return marked
}

// putBackLocked gives n the place that it has in the log.
func (s *store) putBackLocked(n *node, path string) {
	from := n.parent
	if from == nil {
		return // its place is a directory's by now
	}
	s.fs.notify.entryLocked(from, n.name)
	s.fs.detachLocked(n)
	dirPath, name := split(path)
	dir := s.makeDirsLocked(dirPath, n.mtime)
	if dir.children[name] != nil { // a file of this mount's own is there
		s.placeLocked(n.versionLocked())
	} else {
		attachLocked(dir, name, n)
		s.fs.notify.entryLocked(dir, name)
	}
	s.pruneLocked(from)
}

// holdsMemoriesLocked reports whether the log has anything below dir.
func (n *node) holdsMemoriesLocked() bool {
	if n.hides() {
		return true
	}
	for _, c := range n.children {
		if c.isDir() && c.holdsMemoriesLocked() || c.isMemory() {
			return true
		}
	}
	return false
}

// renamedLocked gives the files of a directory that has moved their new versions.
func (s *store) renamedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if v.IsDir() {
			if v.Live() { // else there is one in its place already
				s.placeDirLocked(v)
			}
			continue
		}
		n := s.findHidden(v.Path)
		if n == nil {
			n = s.find(v.Path)
		}
		if n == nil || n.head == nil || n.isDir() || !n.head.OfMemory(&v) {
			s.placeLocked(v) // made by another session since
			continue
		}
		s.rebasedLocked(n, v)
	}
}
