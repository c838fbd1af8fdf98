package fusefs

import (
	"time"
)

// attachLocked gives n its name in dir. It may have lost the one that it had while the
// caller did not hold the lock.
func (t *tree) attachLocked(dir *node, name string, n *node) {
	n.parent, n.name = dir, name
	if n.succeededLocked() {
		n.setAside().line = nil
	}
	dir.children[name] = n
	n.count()
	if old := dir.hiddenDirs[name]; old != nil && n.isDir() {
		delete(dir.hiddenDirs, name)
		n.adoptLocked(old)
	}
	t.told.PlacedLocked(n)
}

// detachLocked takes n's name away.
func (t *tree) detachLocked(n *node) {
	if n.parent != nil && n.parent.children[n.name] == n {
		delete(n.parent.children, n.name)
	}
	n.parent = nil
	n.count()
	t.told.PlacedLocked(n)
}

// newNode makes a node that has no name yet.
func (t *tree) newNode(mode uint32, now time.Time) *node {
	n := newEntry(t.ids.next(), mode, now)
	n.tree, n.store = t, t.owner
	return n
}

// newChildLocked makes the node of a path in dir, of which the log has told.
func (t *tree) newChildLocked(dir *node, path string, mode uint32, at time.Time) *node {
	n := t.newNode(mode, at)
	known := t.coversLocked(dir, path)
	// In a directory that is new since its name was known to be free, nothing
	// is but what the follower brings.
	if n.isDir() {
		n.complete = known
		n.marker = t.takeMarkerLocked(path)
	}
	_, name := split(path)
	t.attachLocked(dir, name, n)
	if known {
		dir.touchLocked(at)
		t.told.NameLocked(dir, name, nil)
	} else if at.After(dir.mtime) {
		dir.mtime, dir.ctime = at, at // which the kernel does not keep yet
		dir.changedLocked()
	}
	return n
}
