package tree

import (
	"strings"
)

// A directory is in the log itself: mkdir and rmdir are commits, of which one of several
// sessions makes the first. It stays when what was in it goes. A directory that the log
// does not have, since only memories imply it, goes with the last of them, but from the
// mounts that made that happen, where it stays until they end.

// MarkedLocked notes that the log has a directory itself since a commit.
func (n *Entry) MarkedLocked(marker uint64) { n.marker = max(n.marker, marker) }

// UnmarkLocked notes that it does not.
func (n *Entry) UnmarkLocked() { n.marker = 0 }

// EmptiedLocked returns the directories that must be taken out of the log, with their markers:
// they were removed here while they hid memories, and no longer hide any. They are the caller's.
func (t *Tree) EmptiedLocked() map[string]uint64 {
	emptied := t.emptied
	t.emptied = map[string]uint64{}
	t.hasEmptied.Store(false)
	return emptied
}

// EmptiedBelowLocked is EmptiedLocked for those at a path or below it.
func (t *Tree) EmptiedBelowLocked(path string) map[string]uint64 {
	below := map[string]uint64{}
	for at, marker := range t.emptied {
		if at == path || strings.HasPrefix(at, path+"/") {
			below[at] = marker
			delete(t.emptied, at)
		}
	}
	t.hasEmptied.Store(len(t.emptied) > 0)
	return below
}

// takeMarkerLocked returns the marker of a directory that was yet to be taken out of the log and
// comes back, so that it stays there; 0 for others.
func (t *Tree) takeMarkerLocked(path string) uint64 {
	marker := t.emptied[path]
	delete(t.emptied, path)
	return marker
}

// HasMarkersLocked reports whether the log has the directory itself, or one below it.
func (n *Entry) HasMarkersLocked() bool {
	if n.marker != 0 {
		return true
	}
	for _, c := range n.children {
		if c.IsDir() && c.HasMarkersLocked() {
			return true
		}
	}
	return false
}

// holdsMemoryLocked notes that a memory has landed in dir: from now on the directory
// exists because of it.
func (n *Entry) holdsMemoryLocked() {
	for ; n != nil; n = n.parent {
		n.SetStaysLocked(false)
	}
}

// HoldsMemoriesLocked reports whether the log has anything below dir.
func (n *Entry) HoldsMemoriesLocked() bool {
	if n.HidesLocked() {
		return true
	}
	for _, c := range n.children {
		if c.IsDir() && c.HoldsMemoriesLocked() || c.IsMemoryLocked() {
			return true
		}
	}
	return false
}

// SetStaysLocked lets a directory stay when it is empty, or not.
func (n *Entry) SetStaysLocked(kept bool) {
	if n.stays != kept {
		n.stays = kept
		n.tree.told.PlacedLocked(n)
	}
}

// HasEmptied reports whether emptiedLocked would return something, without the lock.
func (t *Tree) HasEmptied() bool { return t.hasEmptied.Load() }

// FindLocked returns the entry at a path, or nil.
func (t *Tree) FindLocked(path string) *Entry {
	n := t.root
	for name := range strings.SplitSeq(path[1:], "/") {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// FindDirLocked returns the directory at a path ("" is the root), or nil.
func (t *Tree) FindDirLocked(path string) *Entry {
	n := t.root
	if path != "" {
		n = t.FindLocked(path)
	}
	if n == nil || !n.IsDir() {
		return nil
	}
	return n
}
