package fusefs

import (
	"syscall"
	"time"

	"mneme/versionlog"
)

// makeFileLocked makes a file of this mount only.
func (t *tree) makeFileLocked(dir *node, name string, mode uint32, now time.Time) *node {
	n := t.newNode(syscall.S_IFREG|mode&0o777, now)
	n.local = true
	t.attachLocked(dir, name, n)
	dir.touchLocked(now)
	return n
}

// removedLocked takes out of the tree what this mount has removed.
func (t *tree) removedLocked(n *node) {
	n.removed = true
	n.ctime = time.Now()
	if dir := n.parent; dir != nil {
		dir.touchLocked(n.ctime)
		dir.keepLocked(true)
		dir.changedLocked()
	}
	t.detachLocked(n)
}

// madeDirLocked brings a directory into the tree that this mount has made in the log. The
// directory that it is in may have been moved or removed meanwhile by another session.
func (t *tree) madeDirLocked(dir *node, name, path string, mode uint32, v *versionlog.Version) *node {
	if at, ok := dir.childPath(name); !ok || at != path || dir.children[name] != nil {
		t.placeDirLocked(*v)
		n := t.findDirLocked(path)
		n.mode = n.mode&^0o777 | mode&0o777
		return n
	}
	return t.newDirLocked(dir, name, mode, v.Time, v.Seq)
}

// newDirLocked makes the node of a directory in which nothing is.
func (t *tree) newDirLocked(dir *node, name string, mode uint32, at time.Time, marker uint64) *node {
	n := t.newNode(syscall.S_IFDIR|mode&0o777, at)
	n.marker, n.kept, n.made, n.complete = marker, true, true, true
	t.attachLocked(dir, name, n)
	dir.touchLocked(at)
	return n
}

// rmdirLocked takes an empty directory out of the tree.
func (t *tree) rmdirLocked(dir, n *node, canonical, name string) {
	n.removed = true
	dir.touchLocked(time.Now())
	dir.keepLocked(true)
	dir.changedLocked()
	if canonical != name {
		t.told.NameLocked(dir, canonical, nil)
	}
	if n.hides() {
		n.hideDir()
	} else {
		t.detachLocked(n)
	}
}

// emptiedThereLocked reports whether the log still has a directory that was removed here while it
// hid memories, so that it comes back under its name with its marker.
func (t *tree) emptiedThereLocked(dir *node, name, path string) (marker uint64, there bool) {
	hidden, marker := dir.hiddenDirs[name], t.emptied[path]
	if hidden != nil {
		marker = hidden.marker
	}
	delete(t.emptied, path)
	return marker, hidden != nil || marker != 0
}
