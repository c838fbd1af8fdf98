package tree

import (
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Move is one rename on its way. The names are canonical.
type Move struct {
	Entry    *Entry // what moves
	From, To *Entry // directories
	FromPath string // of Entry
	ToPath   string // of To
	Old, New string
	As       string // New, as the program spells it
	Target   *Entry // what is in the way; nil
}

// ResolveLocked makes m name the current entries, when another session's versions have taken the
// place of the entries that it named.
func (m *Move) ResolveLocked() {
	m.Entry = m.Entry.LatestLocked()
	if m.Target != nil {
		m.Target = m.Target.LatestLocked()
	}
}

// MovedAwayLocked reports whether another session has moved the entry that the rename moves, or
// has removed it. m has been resolved.
func (m *Move) MovedAwayLocked() bool {
	path, ok := m.Entry.PathLocked()
	return !ok || path != m.FromPath
}

// TakeLocked moves the entry. Its new directory may have lost its last memory, and so
// its place, to another session's commit meanwhile; then it is made again. displaced is
// what the rename has removed; nil: nothing.
func (t *Tree) TakeLocked(m *Move) (displaced *Entry) {
	now := time.Now()
	if !m.To.HasPlaceLocked() {
		m.To = t.makeDirsLocked(m.ToPath, now)
		t.told.NameLocked(m.To, m.New, nil)
	}
	if old := m.To.children[m.New]; old != nil && old != m.Entry {
		// A file that another session has put there since is not the one that the rename means to
		// remove: a program that writes to it must hear that its place is gone.
		if old.removed = old == m.Target; old.removed {
			displaced = old
		}
		if old.marker != 0 { // which is what Entry is in the log from now on
			m.Entry.marker, m.Entry.markerOf = old.marker, old.markerOf
		}
		old.SetCTimeLocked(now)
		old.noteLastPathLocked()
		t.DetachLocked(old)
	}
	if m.Entry.parent != nil && m.Entry.parent.children[m.Entry.name] == m.Entry {
		delete(m.Entry.parent.children, m.Entry.name)
	}
	m.From.SetStaysLocked(true)
	m.From.changedLocked()
	m.From.TouchLocked(now)
	t.AttachLocked(m.To, m.New, m.Entry)
	m.Entry.SpellLocked(m.As)
	m.To.TouchLocked(now)
	m.Entry.SetCTimeLocked(now)
	if m.Entry.mkstemp || m.Entry.probe {
		a := m.Entry.setAside()
		a.mkstemp, a.probe = false, false
	}
	return displaced
}

// HideLocked moves a file to a scratch name, of which the log does not hear: a memory is hidden
// from then on.
func (t *Tree) HideLocked(m *Move) (displaced *Entry) {
	memory := m.Entry.IsMemoryLocked()
	displaced = t.TakeLocked(m)
	m.Entry.SetUnloggedLocked(true)
	if memory {
		t.hideFromLocked(m.From, m.Old, m.Entry)
	}
	return displaced
}

// RevealLocked undoes hideLocked: the file gets the name back under which the log has it.
func (t *Tree) RevealLocked(m *Move) {
	t.UnhideLocked(m.Entry)
	t.TakeLocked(m)
	m.Entry.SetUnloggedLocked(false)
}

// MovedLocked brings v, by which a file has moved, into the tree. v has moved the file that was
// at its source at that time.
func (t *Tree) MovedLocked(m *Move, source string, v versionlog.Version) (displaced *Entry) {
	m.ResolveLocked()
	if at, ok := m.Entry.LogPathLocked(); !ok || at != source {
		_, elsewhere := m.Entry.PathLocked()
		switch other := t.FindMemoryLocked(source); {
		case other != nil:
			m.Entry = other
		case elsewhere:
			m.Entry = nil
			t.InstallLocked(v)
			m.To.holdsMemoryLocked()
			return nil
		}
	}
	t.UnhideLocked(m.Entry)
	displaced = t.TakeLocked(m)
	m.Entry.SetUnloggedLocked(false)
	t.rebasedLocked(m.Entry, v)
	m.To.holdsMemoryLocked()
	return displaced
}

// ReplacedLocked is the head in the log of the path that the file moves to, or nil.
func (m *Move) ReplacedLocked() *memory.Head {
	if m.Target.IsMemoryLocked() {
		return m.Target.head
	}
	if hidden := m.To.hidden[m.New]; hidden != nil {
		return hidden.head
	}
	return nil
}

// rebasedLocked makes v, by which this session only gave n's memory the path that n
// has, its head.
func (t *Tree) rebasedLocked(n *Entry, v versionlog.Version) {
	if n.head == nil || n.head.ID() != v.Parent {
		// With content of another session's that the tree has yet to see. There is
		// no head when it has seen so far that the memory before that was deleted.
		if n.IsHiddenLocked() {
			t.UnhideLocked(n)
			t.InstallLocked(v)
		} else {
			t.SupersedeLocked(n, n.parent, n.name, v)
		}
		return
	}
	n.SetHeadLocked(memory.NewHead(&v), v.Spelling)
	t.told.RenamedLocked(n, v.Parent)
}

// TakeDirLocked is takeLocked for a directory, with which goes what the session knows of the
// files in it that the log does not have.
func (t *Tree) TakeDirLocked(m *Move) {
	follow := t.knownBelowLocked(m.Entry)
	t.TakeLocked(m)
	follow()
}

// MovedDirLocked brings c, by which a directory has moved with all that the log has below it,
// into the tree.
func (t *Tree) MovedDirLocked(m *Move, c *versionlog.Commit) {
	moved := movedBy(c)
	stay := newcomersLocked(m.Entry, moved)
	loose, dirs := strayDirsLocked(m.Entry, moved)
	if old := m.To.children[m.New]; old != nil && old != m.Entry {
		stay = append(stay, newcomersLocked(old, moved)...)
		dirs = append(dirs, markedBelowLocked(old)...)
	}
	t.uncoverLocked(m.Entry, moved)
	follow := t.knownBelowLocked(m.Entry)
	t.TakeLocked(m)
	follow()
	for _, n := range stay { // first: what has moved may have to go where they are
		t.putBackLocked(n.file, n.path)
	}
	for _, d := range dirs {
		n := t.makeDirsLocked(d.path, c.Time)
		if n.marker < d.marker {
			n.marker, n.markerOf = d.marker, d.markerOf
		}
	}
	t.renamedLocked(c)
	m.To.holdsMemoryLocked()
	for _, n := range loose {
		n.SetStaysLocked(false)
		t.PruneLocked(n)
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
func (t *Tree) uncoverLocked(dir *Entry, moved map[string]uint64) {
	for name, n := range dir.hidden {
		if path, ok := dir.ChildPathLocked(name); ok && moved[path] == 0 {
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
	file *Entry
	path string
}

// newcomersLocked returns the memories below dir that have not been moved, or that have
// come where something was: heads that load may be newer than the commit that moved
// it.
func newcomersLocked(dir *Entry, moved map[string]uint64) []newcomer {
	var found []newcomer
	var walkLocked func(*Entry)
	walkLocked = func(n *Entry) {
		for _, child := range n.children {
			walkLocked(child)
		}
		if path, ok := n.PathLocked(); ok && n.IsMemorySinceLocked(moved[path]+1) {
			found = append(found, newcomer{n, path})
		}
	}
	walkLocked(dir)
	return found
}

// markedDir is a directory that the log has itself, at a path where a rename does not
// leave its entry.
type markedDir struct {
	path     string
	marker   uint64
	markerOf string
}

// strayDirsLocked ends what directories at and below dir are to the log that a rename has not
// moved: they are to stay where another session has made them or, until the follower
// tells that it has moved or removed them, has had them.
func strayDirsLocked(dir *Entry, moved map[string]uint64) (stray []*Entry, stay []markedDir) {
	if path, ok := dir.PathLocked(); ok && dir.marker > moved[path+"/"] {
		stay = append(stay, markedDir{path, dir.marker, dir.markerOf})
		dir.marker = 0
		stray = append(stray, dir)
	}
	for _, below := range []map[string]*Entry{dir.children, dir.hiddenDirs} {
		for _, child := range below {
			if child.IsDir() {
				more, stays := strayDirsLocked(child, moved)
				stray, stay = append(stray, more...), append(stay, stays...)
			}
		}
	}
	return stray, stay
}

// markedBelowLocked returns the directories below dir that the log has itself.
func markedBelowLocked(dir *Entry) (marked []markedDir) {
	for _, child := range dir.children {
		if !child.IsDir() {
			continue
		}
		if path, ok := child.PathLocked(); ok && child.marker != 0 {
			marked = append(marked, markedDir{path, child.marker, child.markerOf})
		}
		marked = append(marked, markedBelowLocked(child)...)
	}
	return marked
}

// putBackLocked gives n the place that it has in the log.
func (t *Tree) putBackLocked(n *Entry, path string) {
	from := n.parent
	if from == nil {
		return // its place is now a directory's
	}
	t.told.NameLocked(from, n.name, nil)
	t.DetachLocked(n)
	dirPath, name := Split(path)
	dir := t.makeDirsLocked(dirPath, n.MTimeLocked())
	if dir.children[name] != nil { // a file of this mount's own is there
		t.InstallLocked(n.VersionLocked())
	} else {
		t.AttachLocked(dir, name, n)
		t.told.NameLocked(dir, name, nil)
	}
	t.PruneLocked(from)
}

// renamedLocked gives the files of a directory that has moved their new versions.
func (t *Tree) renamedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if v.Redacted() {
			continue
		}
		if v.IsDir() {
			if v.Live() { // else there is one in its place already
				t.installDirLocked(v)
			}
			continue
		}
		n := t.FindHiddenLocked(v.Path)
		if n == nil {
			n = t.FindLocked(v.Path)
		}
		if n == nil || n.head == nil || n.IsDir() || !n.head.OfMemory(&v) {
			t.InstallLocked(v) // made by another session since
			continue
		}
		t.rebasedLocked(n, v)
	}
}

// knownBelowLocked notes which files below dir the log does not have. When dir has moved, the caller
// calls follow, by which what the session knows of them moves along.
func (t *Tree) knownBelowLocked(dir *Entry) (follow func()) {
	at := map[*Entry]string{}
	var walkLocked func(*Entry)
	walkLocked = func(n *Entry) {
		for _, child := range n.children {
			walkLocked(child)
		}
		if !n.IsDir() && n.KnownByItselfLocked() {
			at[n] = n.KnownAtLocked()
		}
	}
	walkLocked(dir)
	//archtest:locked it is called before the caller lets go of the lock
	return func() {
		for n, from := range at {
			t.session.Moved(from, n.KnownAtLocked())
		}
	}
}
