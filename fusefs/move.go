package fusefs

import (
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// moving is one rename on its way. The names are canonical.
type moving struct {
	n        *node  // what moves
	from, to *node  // directories
	fromPath string // of n
	toPath   string // of to
	old, new string
	as       string // new, as the program spells it
	target   *node  // what is in the way; nil
}

// resolveLocked makes m name what is there by now, when another session's versions
// have taken the place of what it named.
func (m *moving) resolveLocked() {
	m.n = m.n.nowLocked()
	if m.target != nil {
		m.target = m.target.nowLocked()
	}
}

// movedAwayLocked reports whether another session has moved what is to move, or has
// removed it. m has been resolved.
func (m *moving) movedAwayLocked() bool {
	path, ok := m.n.path()
	return !ok || path != m.fromPath
}

// takeLocked moves the node. Its new directory may have lost its last memory, and so
// its place, to another session's commit meanwhile; then it is made again. displaced is
// what the rename has removed; nil: nothing.
func (t *tree) takeLocked(m *moving) (displaced *node) {
	now := time.Now()
	if !m.to.hasPlace() {
		m.to = t.makeDirsLocked(m.toPath, now)
		t.told.NameLocked(m.to, m.new, nil)
	}
	if old := m.to.children[m.new]; old != nil && old != m.n {
		// What another session has put there since is not what the rename means
		// to remove: who writes to it is to hear that its place is gone.
		if old.removed = old == m.target; old.removed {
			displaced = old
		}
		if old.marker != 0 { // which is what m.n is in the log from now on
			m.n.marker = old.marker
		}
		old.ctime = now
		old.noteWasLocked()
		t.detachLocked(old)
	}
	if m.n.parent != nil && m.n.parent.children[m.n.name] == m.n {
		delete(m.n.parent.children, m.n.name)
	}
	m.from.keepLocked(true)
	m.from.changedLocked()
	m.from.touchLocked(now)
	t.attachLocked(m.to, m.new, m.n)
	m.n.spellLocked(m.as)
	m.to.touchLocked(now)
	m.n.ctime = now
	if m.n.mkstemp || m.n.probe {
		a := m.n.setAside()
		a.mkstemp, a.probe = false, false
	}
	return displaced
}

// hideLocked moves a file to a scratch name, of which the log does not hear: a memory is hidden
// from then on.
func (t *tree) hideLocked(m *moving) (displaced *node) {
	memory := m.n.isMemory()
	displaced = t.takeLocked(m)
	m.n.setLocal(true)
	if memory {
		t.hide(m.from, m.old, m.n)
	}
	return displaced
}

// comeBackLocked undoes hideLocked: the file gets the name back under which the log has it.
func (t *tree) comeBackLocked(m *moving) {
	t.unhideLocked(m.n)
	t.takeLocked(m)
	m.n.setLocal(false)
}

// movedInLogLocked brings v, by which a file has moved, into the tree. What v has moved is
// what was at its source by then.
func (t *tree) movedInLogLocked(m *moving, source string, v versionlog.Version) (displaced *node) {
	m.resolveLocked()
	if at, ok := m.n.logPath(); !ok || at != source {
		_, elsewhere := m.n.path()
		switch other := t.madeLocked(source); {
		case other != nil:
			m.n = other
		case elsewhere:
			m.n = nil
			t.placeLocked(v)
			m.to.settleLocked()
			return nil
		}
	}
	t.unhideLocked(m.n)
	displaced = t.takeLocked(m)
	m.n.setLocal(false)
	t.rebasedLocked(m.n, v)
	m.to.settleLocked()
	return displaced
}

// replacedLocked is the head in the log of the path that the file moves to, or nil.
func (m *moving) replacedLocked() *memory.Head {
	if m.target.isMemory() {
		return m.target.head
	}
	if hidden := m.to.hidden[m.new]; hidden != nil {
		return hidden.head
	}
	return nil
}

// rebasedLocked makes v, by which this session only gave n's memory the path that n
// has, its head.
func (t *tree) rebasedLocked(n *node, v versionlog.Version) {
	if n.head == nil || n.head.ID() != v.Parent {
		// With content of another session's that the tree has yet to see. There is
		// no head when it has seen so far that the memory before that was deleted.
		if n.isHidden() {
			t.unhideLocked(n)
			t.placeLocked(v)
		} else {
			t.succeedLocked(n, n.parent, n.name, v)
		}
		return
	}
	n.setHeadLocked(memory.NewHead(&v), v.Spelling)
	t.told.RenamedLocked(n, v.Parent)
}

// takeDirLocked is takeLocked for a directory, with which goes what the session knows of the
// files in it that the log does not have.
func (t *tree) takeDirLocked(m *moving) {
	follow := t.knownBelowLocked(m.n)
	t.takeLocked(m)
	follow()
}

// movedDirLocked brings c, by which a directory has moved with all that the log has below it,
// into the tree.
func (t *tree) movedDirLocked(m *moving, c *versionlog.Commit) {
	moved := movedBy(c)
	stay := newcomersLocked(m.n, moved)
	loose, dirs := strayDirsLocked(m.n, moved)
	if old := m.to.children[m.new]; old != nil && old != m.n {
		stay = append(stay, newcomersLocked(old, moved)...)
		dirs = append(dirs, markedBelowLocked(old)...)
	}
	t.uncoverLocked(m.n, moved)
	follow := t.knownBelowLocked(m.n)
	t.takeLocked(m)
	follow()
	for _, n := range stay { // first: what has moved may have to go where they are
		t.putBackLocked(n.file, n.path)
	}
	for _, d := range dirs {
		n := t.makeDirsLocked(d.path, c.Time)
		n.marker = max(n.marker, d.marker)
	}
	t.renamedLocked(c)
	m.to.settleLocked()
	for _, n := range loose {
		n.keepLocked(false)
		t.pruneLocked(n)
	}
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
func (t *tree) uncoverLocked(dir *node, moved map[string]uint64) {
	for name, n := range dir.hidden {
		if path, ok := dir.childPath(name); ok && moved[path] == 0 {
			t.revealLocked(n, path)
		}
	}
	for _, d := range dir.hiddenDirs {
		t.uncoverLocked(d, moved)
	}
	for _, child := range dir.children {
		t.uncoverLocked(child, moved)
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
	var walkLocked func(*node)
	walkLocked = func(n *node) {
		for _, child := range n.children {
			walkLocked(child)
		}
		if path, ok := n.path(); ok && n.isMemorySince(moved[path]+1) {
			found = append(found, newcomer{n, path})
		}
	}
	walkLocked(dir)
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
func (t *tree) putBackLocked(n *node, path string) {
	from := n.parent
	if from == nil {
		return // its place is a directory's by now
	}
	t.told.NameLocked(from, n.name, nil)
	t.detachLocked(n)
	dirPath, name := split(path)
	dir := t.makeDirsLocked(dirPath, n.mtime)
	if dir.children[name] != nil { // a file of this mount's own is there
		t.placeLocked(n.versionLocked())
	} else {
		t.attachLocked(dir, name, n)
		t.told.NameLocked(dir, name, nil)
	}
	t.pruneLocked(from)
}

// renamedLocked gives the files of a directory that has moved their new versions.
func (t *tree) renamedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if v.IsDir() {
			if v.Live() { // else there is one in its place already
				t.placeDirLocked(v)
			}
			continue
		}
		n := t.findHidden(v.Path)
		if n == nil {
			n = t.find(v.Path)
		}
		if n == nil || n.head == nil || n.isDir() || !n.head.OfMemory(&v) {
			t.placeLocked(v) // made by another session since
			continue
		}
		t.rebasedLocked(n, v)
	}
}

// knownBelowLocked notes which files below dir the log does not have. When dir has moved, the caller
// calls follow, by which what the session knows of them moves along.
func (t *tree) knownBelowLocked(dir *node) (follow func()) {
	at := map[*node]string{}
	var walkLocked func(*node)
	walkLocked = func(n *node) {
		for _, child := range n.children {
			walkLocked(child)
		}
		if !n.isDir() && n.knownByItselfLocked() {
			at[n] = n.knownAtLocked()
		}
	}
	walkLocked(dir)
	//archtest:locked it is called before the caller lets go of the lock
	return func() {
		for n, from := range at {
			t.session.Moved(from, n.knownAtLocked())
		}
	}
}
