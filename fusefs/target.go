package fusefs

import (
	"mneme/memory"
)

// knownAtLocked is the path of which the session knows what stands for n: the one that the
// log has, or where n is in this mount, or was.
func (n *node) knownAtLocked() string {
	m := n.nowLocked()
	if m.isInLog() {
		return m.head.Path()
	}
	if path, ok := m.path(); ok {
		return path
	}
	return m.was
}

// knownByItselfLocked reports whether the log does not have n, and does not have
// anything at its path either that this mount hides.
func (n *node) knownByItselfLocked() bool {
	return n.hasName() && n.isMountOnly() && n.parent.hidden[n.name] == nil
}

// logPath is where the log has n: its path, or the one that it is hidden from.
func (n *node) logPath() (string, bool) {
	if o := n.origin; o != nil {
		return o.dir.childPath(o.name)
	}
	return n.path()
}

// targetLocked is the path at which what is written to n is committed, and whether n,
// or what took its place, is there. Otherwise another session took the place
// away; "" is a place that never was in the log.
func (n *node) targetLocked() (path string, there bool) {
	m := n.nowLocked()
	if m != n && m.local { // it has a scratch name in this mount, which the log does not
		if path, there = m.logPath(); m.isHidden() && there {
			return path, true
		}
		return n.was, false
	}
	if path, there = m.path(); there {
		return path, true
	}
	return m.was, false
}

// theirsLocked is the version that is at n's target; nil: no memory.
func (n *node) theirsLocked() *memory.Head {
	path, there := n.targetLocked()
	if there {
		return n.nowLocked().head
	}
	if other := n.tree.madeLocked(path); other != nil {
		return other.head
	}
	return nil
}

// madeLocked returns the file of the log that is at a path where another one has been
// before, or nil.
func (t *tree) madeLocked(path string) *node {
	if path == "" {
		return nil
	}
	if n := t.find(path); n.isMemory() {
		return n
	}
	return nil
}
