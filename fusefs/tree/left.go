package tree

import (
	"time"

	"mneme/versionlog"
)

// LeftLocked takes a file out of the tree that another session has removed.
func (t *Tree) LeftLocked(n *Entry, at time.Time) {
	dir := n.parent
	n.noteLastPathLocked()
	t.session.Went(n.lastPath)
	t.told.NameLocked(dir, n.name, nil)
	t.told.AttributesLocked(n)
	dir.TouchLocked(at)
	t.DetachLocked(n)
	t.PruneLocked(dir)
}

// A version may have been erased before it was followed: then it does not say where it was, where
// it was moved from, nor what it holds. The entry that the tree has of its memory, or directory,
// is outdated by it, and leaves the tree as if another session had removed it. Since the current
// version of a memory is never erased, the memory is gone in the log, too, or a later commit
// brings it in again. A tree of the past may have the very version that is erased.

// eraseLocked takes what the erased version v has changed out of the tree.
func (t *Tree) eraseLocked(v *versionlog.Version) {
	t.freed[v.MemoryID] = max(t.freed[v.MemoryID], v.Seq) // which no path is
	n := t.root.findLocked(func(n *Entry) bool {
		return n.marker != 0 && n.marker <= v.Seq && n.markerOf == v.MemoryID || n.InLogLocked() && n.head.OfMemory(v) && n.head.Seq() <= v.Seq
	})
	switch {
	case n == nil:
	case n.isHiddenDir(): // it is yet to be taken out of the log
	case n.IsDir():
		n.marker = 0
		n.SetStaysLocked(false)
		t.PruneLocked(n)
	case n.IsHiddenLocked():
		t.revealLocked(n, n.head.Path())
	default:
		t.told.ContentLocked(n)
		t.LeftLocked(n, v.Time)
	}
}

// findLocked returns n, or what is in it or below, that is as is says; nil: nothing.
func (n *Entry) findLocked(is func(*Entry) bool) *Entry {
	if is(n) {
		return n
	}
	for _, below := range []map[string]*Entry{n.children, n.hidden, n.hiddenDirs} {
		for _, c := range below {
			if found := c.findLocked(is); found != nil {
				return found
			}
		}
	}
	return nil
}

// ErasedLocked is CommittedLocked where the version that holds what was written to n was erased
// before it was followed: n leaves the tree, unless a later version has come there.
func (t *Tree) ErasedLocked(n *Entry, v *versionlog.Version) {
	if n.HasNameLocked() && !n.IsMemorySinceLocked(v.Seq) {
		t.UnhideLocked(n)
		t.LeftLocked(n, v.Time)
	}
}
