package tree

import (
	"strings"

	"mneme/versionlog"
)

// belowAll sorts behind everything that lies below a directory's path.
const belowAll = "/\xff"

// freedSinceLocked reports whether a later commit is known to have taken v away from its path.
func (t *Tree) freedSinceLocked(v *versionlog.Version) bool {
	return t.freed[v.Path] > v.Seq || t.freed[v.MemoryID] > v.Seq
}

// outdatedLocked reports whether the tree shows that v is no longer the head of its path.
func (t *Tree) outdatedLocked(v versionlog.Version) bool {
	if t.freedSinceLocked(&v) {
		return true
	}
	n := t.root
	for name := range strings.SplitSeq(v.Path[1:], "/") {
		if n = n.children[name]; n == nil {
			return false
		}
		if !n.IsDir() { // there or above it
			return n.IsMemorySinceLocked(v.Seq + 1)
		}
	}
	return n.holdsNewerLocked(v.Seq)
}

// holdsNewerLocked reports whether below dir there is a memory of a later commit.
func (n *Entry) holdsNewerLocked(seq uint64) bool {
	if n.marker > seq {
		return true
	}
	for _, c := range n.hidden {
		if c.head.Seq() > seq {
			return true
		}
	}
	for _, d := range n.hiddenDirs {
		if d.holdsNewerLocked(seq) {
			return true
		}
	}
	for _, c := range n.children {
		if c.IsDir() && c.holdsNewerLocked(seq) || c.IsMemorySinceLocked(seq+1) {
			return true
		}
	}
	return false
}

// RightAboutLocked reports whether the tree is right about a path in dir: when it shows
// nothing there, nothing is there or below.
func (t *Tree) RightAboutLocked(dir *Entry, path string) bool {
	return t.loading.done || dir.complete || t.loading.asked[path] || path+belowAll <= t.loading.cursor
}

// AllOfLocked reports whether the tree has everything that is in dir.
func (t *Tree) AllOfLocked(dir *Entry) bool {
	if t.loading.done || dir.complete {
		return true
	}
	path, ok := dir.PathLocked()
	return !ok || path+belowAll <= t.loading.cursor
}

// LacksLocked reports whether the kernel will be told when dir, which does not have a
// name, gets it.
func (n *Entry) LacksLocked(name string) bool {
	if n.tree == nil {
		return true
	}
	path, ok := n.ChildPathLocked(name)
	return ok && n.tree.RightAboutLocked(n, path)
}

// NoteFreedLocked remembers which paths a commit frees, so that nothing that was read
// before brings them back.
func (t *Tree) NoteFreedLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if freed := freedBy(v); freed != "" {
			t.freed[freed] = max(t.freed[freed], c.Seq)
		}
	}
	t.forgetFreedLocked()
}

// forgetFreedLocked drops what NoteFreedLocked no longer has to remember.
func (t *Tree) forgetFreedLocked() {
	if !t.loading.done {
		return
	}
	for path, seq := range t.freed {
		if seq <= t.applied {
			delete(t.freed, path)
		}
	}
}

// freedBy returns the path at which there is no memory after v, or "".
func freedBy(v versionlog.Version) string {
	switch v.Op {
	case versionlog.OpDeleted:
		return v.Path
	case versionlog.OpRenamed:
		return v.From
	}
	return ""
}
