package fusefs

import (
	"strings"
)

// A directory is in the log itself: mkdir and rmdir are commits, of which one of several
// sessions makes the first. It stays when what was in it goes. A directory that the log
// does not have, since only memories imply it, goes with the last of them, but from the
// mounts that made that happen, where it stays until they end.

// markedLocked notes that the log has a directory itself since a commit.
func (n *node) markedLocked(marker uint64) { n.marker = max(n.marker, marker) }

// unmarkLocked notes that it does not.
func (n *node) unmarkLocked() { n.marker = 0 }

// emptiedLocked returns the directories to be taken out of the log, with their markers: they were
// removed here while they hid memories, and hide none any more. They are the caller's.
func (t *tree) emptiedLocked() map[string]uint64 {
	emptied := t.emptied
	t.emptied = map[string]uint64{}
	t.hasEmptied.Store(false)
	return emptied
}

// takeMarkerLocked returns the marker of a directory that was yet to be taken out of the log and
// comes back, so that it stays there; 0 for others.
func (t *tree) takeMarkerLocked(path string) uint64 {
	marker := t.emptied[path]
	delete(t.emptied, path)
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

// settleLocked notes that a memory has landed in dir: from now on the directory
// exists because of it.
func (n *node) settleLocked() {
	for ; n != nil; n = n.parent {
		n.keepLocked(false)
	}
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

// keepLocked lets a directory stay when it is empty, or not.
func (n *node) keepLocked(kept bool) {
	if n.kept != kept {
		n.kept = kept
		n.tree.told.PlacedLocked(n)
	}
}

// hasEmptiedDirs reports whether emptiedLocked would return something, without the lock.
func (t *tree) hasEmptiedDirs() bool { return t.hasEmptied.Load() }

// find returns the node at a path, or nil.
func (t *tree) find(path string) *node {
	n := t.root
	for name := range strings.SplitSeq(path[1:], "/") {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// findDirLocked returns the directory at a path ("" is the root), or nil.
func (t *tree) findDirLocked(path string) *node {
	n := t.root
	if path != "" {
		n = t.find(path)
	}
	if n == nil || !n.isDir() {
		return nil
	}
	return n
}
