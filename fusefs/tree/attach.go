package tree

import (
	"time"
)

// AttachLocked gives n its name in dir. It may have lost the one that it had while the
// caller did not hold the lock.
func (t *Tree) AttachLocked(dir *Entry, name string, n *Entry) {
	n.parent, n.name = dir, name
	if n.IsSupersededLocked() {
		n.setAside().line = nil
	}
	dir.children[name] = n
	n.countLocked()
	if old := dir.hiddenDirs[name]; old != nil && n.IsDir() {
		delete(dir.hiddenDirs, name)
		n.takeOverHiddenLocked(old)
	}
	t.told.PlacedLocked(n)
}

// DetachLocked takes n's name away.
func (t *Tree) DetachLocked(n *Entry) {
	if n.parent != nil && n.parent.children[n.name] == n {
		delete(n.parent.children, n.name)
	}
	n.parent = nil
	n.countLocked()
	t.told.PlacedLocked(n)
}

// newEntry makes an entry that has no name yet.
func (t *Tree) newEntry(mode uint32, now time.Time) *Entry {
	n := NewEntry(t.ids.next(), mode, now)
	n.tree = t
	return n
}

// newChildLocked makes the entry of a path in dir, of which the log has told.
func (t *Tree) newChildLocked(dir *Entry, path string, mode uint32, at time.Time) *Entry {
	n := t.newEntry(mode, at)
	known := t.RightAboutLocked(dir, path)
	// In a directory that is new since its name was known to be free, nothing
	// is but what the follower brings.
	if n.IsDir() {
		n.complete = known
		n.marker = t.takeMarkerLocked(path)
	}
	_, name := Split(path)
	t.AttachLocked(dir, name, n)
	if known {
		dir.TouchLocked(at)
		t.told.NameLocked(dir, name, nil)
	} else if at.After(dir.MTimeLocked()) {
		dir.SetTimesLocked(at) // which the kernel does not keep yet
		dir.changedLocked()
	}
	return n
}
