package tree

import (
	"mneme/memory"
)

// KnownAtLocked is the path of which the session knows what stands for n: the one that the
// log has, or where n is in this mount, or was.
func (n *Entry) KnownAtLocked() string {
	m := n.LatestLocked()
	if m.InLogLocked() {
		return m.head.Path()
	}
	if path, ok := m.PathLocked(); ok {
		return path
	}
	return m.lastPath
}

// KnownByItselfLocked reports whether the log does not have n, and does not have
// anything at its path either that this mount hides.
func (n *Entry) KnownByItselfLocked() bool {
	return n.HasNameLocked() && n.IsMountOnlyLocked() && n.parent.hidden[n.name] == nil
}

// LogPathLocked is where the log has n: its path, or the one that it is hidden from.
func (n *Entry) LogPathLocked() (string, bool) {
	if o := n.origin; o != nil {
		return o.dir.ChildPathLocked(o.name)
	}
	return n.PathLocked()
}

// TargetLocked is the path at which what is written to n is committed, and whether n,
// or what took its place, is there. Otherwise another session took the place
// away; "" is a place that never was in the log.
func (n *Entry) TargetLocked() (path string, there bool) {
	m := n.LatestLocked()
	if m != n && m.unlogged { // it has a scratch name in this mount, which the log does not
		if path, there = m.LogPathLocked(); m.IsHiddenLocked() && there {
			return path, true
		}
		return n.lastPath, false
	}
	if path, there = m.PathLocked(); there {
		return path, true
	}
	return m.lastPath, false
}

// TheirsLocked is the version that is at n's target; nil: no memory.
func (n *Entry) TheirsLocked() *memory.Head {
	path, there := n.TargetLocked()
	if there {
		return n.LatestLocked().head
	}
	if other := n.tree.FindMemoryLocked(path); other != nil {
		return other.head
	}
	return nil
}

// FindMemoryLocked returns the file of the log that is at a path where another one has been
// before, or nil.
func (t *Tree) FindMemoryLocked(path string) *Entry {
	if path == "" {
		return nil
	}
	if n := t.FindLocked(path); n.IsMemoryLocked() {
		return n
	}
	return nil
}
