package fusefs

import (
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Another session's version of a file, or its rename of one, is a new file here:
// it gets a node, and with it an inode, of its own, as if it had been renamed
// over the old one. Whoever has that open or mapped goes on reading the version
// that he opened; who looks the name up finds the new one. The kernel cuts what
// it reads at the size that it knows and keeps what it has read page by page, so
// that in one inode a reader could get bytes of two versions.

// line is the nodes that have followed one another in one place, of which those
// before the last are here for whoever has them open.
type line struct{ last *node }

// succeededLocked reports whether another node has taken n's place.
func (n *node) succeededLocked() bool { return n.line != nil && n.line.last != n }

// nowLocked is the node that stands for n's memory by now: n while it has its place.
func (n *node) nowLocked() *node {
	for n.succeededLocked() {
		n = n.line.last
	}
	return n
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

// standAloneLocked makes n stand for itself, whatever has taken its place.
func (n *node) standAloneLocked() { n.setAside().line = nil }

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

// succeedLocked makes v, by another session, the head of n's memory, which has the
// name in dir: n's own, or the one that it has been given. It returns the node
// that is there then. What is being written to n stays as it is, based on what
// it was based on.
func (t *tree) succeedLocked(n *node, dir *node, name string, v versionlog.Version) *node {
	head := memory.NewHead(&v)
	used, length := t.told.SupersedingLocked(n, head)
	spelling := n.spelling
	if n.head == nil || n.spelledInLog != v.Spelling || n.name != name {
		spelling = "" // v says how
	}
	m := n
	if used {
		m = t.newNode(n.mode, v.Time)
		n.noteWasLocked()
		n.parent = nil
		n.setLocal(false)
		n.changedLocked()
	}
	t.attachLocked(dir, name, m)
	if m.setSpelling(spelling); !oneForm(name) {
		t.told.ListingLocked(dir)
	}
	if m != n {
		if n.line == nil {
			n.setAside().line = &line{}
		}
		n.line.last, m.setAside().line = m, n.line
	}
	m.setHeadLocked(head, v.Spelling)
	m.setLocal(false)
	if length >= 0 {
		t.session.Seen(v.Path, length)
	}
	m.mtime, m.ctime = v.Time, v.Time
	if !m.atime.IsZero() {
		m.setAside().atime = time.Time{}
	}
	if m != n {
		t.told.NameLocked(dir, name, m)
	}
	return m
}

// leadLocked makes m what stands for n's memory by now: what was written to n has made
// it, where the memory was gone, or after another session had moved to elsewhere
// what it had put in n's place.
func (n *node) leadLocked(m *node) {
	last := n.nowLocked()
	_, there := last.path()
	switch {
	case last == m:
	case there:
		n.setAside().line = &line{last: m}
	case last.line == nil:
		last.setAside().line = &line{last: m}
	default:
		last.line.last = m
	}
}

// yieldLocked gives n's place to the version that a commit has met there, before the
// log has been followed so far; nil is that there is none.
func (n *node) yieldLocked(theirs *versionlog.Version) {
	t := n.tree
	switch path, ok := n.path(); {
	case theirs != nil:
		if hidden := t.findHidden(theirs.Path); hidden != nil && n.local && path == theirs.Path {
			t.unhideLocked(hidden)
			t.placeLocked(hidden.versionLocked()) // the follower has met it long ago, and will not again
		}
		t.showLocked(*theirs)
	case ok && !n.local:
		t.leaveLocked(n, time.Now())
	}
}
