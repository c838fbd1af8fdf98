package fusefs

import (
	"strings"

	"mneme/versionlog"
)

// A directory is in the log itself: mkdir and rmdir are commits, of which one of several
// sessions makes the first. It stays when what was in it goes. A directory that the log
// does not have, since only memories imply it, goes with the last of them, but from the
// mounts that made that happen, where it stays until they end.

// placeDirLocked makes a directory of the log be in the tree.
func (t *tree) placeDirLocked(v versionlog.Version) {
	path := strings.TrimSuffix(v.Path, "/")
	if t.gone[v.Path] > v.Seq {
		return // removed since
	}
	if n := t.findHidden(path); n != nil && n.head.Seq() < v.Seq {
		t.revealLocked(n, path)
	}
	n := t.makeDirsLocked(path, v.Time)
	if n.marker < v.Seq {
		n.marker = v.Seq
		t.spellDirsLocked(n, &v)
	}
}

// vacateDirLocked takes a directory out of the tree that v has removed or moved away, unless
// something is in it here.
func (t *tree) vacateDirLocked(path string, v versionlog.Version) {
	n := t.findDirLocked(strings.TrimSuffix(path, "/"))
	if n == nil || n == t.root || n.marker >= v.Seq {
		return
	}
	n.marker = 0
	n.keepLocked(false)
	t.pruneLocked(n)
}

// vacatedDirLocked is vacateDirLocked where this mount has done it: the directory above
// stays, as it does when a file is removed.
func (t *tree) vacatedDirLocked(path string, v versionlog.Version) {
	if n := t.findDirLocked(strings.TrimSuffix(path, "/")); n != nil && n.parent != nil {
		n.parent.keepLocked(true)
	}
	t.vacateDirLocked(path, v)
}

// applyDirLocked brings a version of a directory into the tree.
func (t *tree) applyDirLocked(v versionlog.Version) {
	if freed := freedBy(v); freed != "" {
		t.vacateDirLocked(freed, v)
	}
	if v.Live() {
		t.placeDirLocked(v)
	}
}

// learnDirLocked is learn for a directory.
func (t *tree) learnDirLocked(v versionlog.Version) bool {
	path := strings.TrimSuffix(v.Path, "/")
	switch {
	case t.gone[v.Path] > v.Seq:
		return t.findDirLocked(path) != nil
	case v.Seq > t.applied && t.session.Made(&v):
		return true
	}
	t.placeDirLocked(v)
	return true
}

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
