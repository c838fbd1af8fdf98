package fusefs

import (
	"strings"

	"mneme/versionlog"
)

// belowAll sorts behind everything that lies below a directory's path.
const belowAll = "/\xff"

// overtakenLocked reports whether the tree shows that v is not the head of its path
// any more.
func (t *tree) overtakenLocked(v versionlog.Version) bool {
	if t.gone[v.Path] > v.Seq {
		return true // freed since
	}
	n := t.root
	for name := range strings.SplitSeq(v.Path[1:], "/") {
		if n = n.children[name]; n == nil {
			return false
		}
		if !n.isDir() { // there or above it
			return n.isMemorySince(v.Seq + 1)
		}
	}
	return n.holdsNewerLocked(v.Seq)
}

// holdsNewerLocked reports whether below dir there is a memory of a later commit.
func (n *node) holdsNewerLocked(seq uint64) bool {
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
		if c.isDir() && c.holdsNewerLocked(seq) || c.isMemorySince(seq+1) {
			return true
		}
	}
	return false
}

// coversLocked reports whether the tree is right about a path in dir: when it shows
// nothing there, nothing is there or below.
func (t *tree) coversLocked(dir *node, path string) bool {
	return t.loading.done || dir.complete || t.loading.asked[path] || path+belowAll <= t.loading.cursor
}

// knowsLocked reports whether the tree has everything that is in dir.
func (t *tree) knowsLocked(dir *node) bool {
	if t.loading.done || dir.complete {
		return true
	}
	path, ok := dir.path()
	return !ok || path+belowAll <= t.loading.cursor
}

// lacksLocked reports whether the kernel will be told when dir, which does not have a
// name, gets it.
func (n *node) lacksLocked(name string) bool {
	if n.tree == nil {
		return true
	}
	path, ok := n.childPath(name)
	return ok && n.tree.coversLocked(n, path)
}

// noteGoneLocked remembers which paths a commit frees, so that nothing that was read
// before brings them back.
func (t *tree) noteGoneLocked(c *versionlog.Commit) {
	for _, v := range c.Versions {
		if freed := freedBy(v); freed != "" {
			t.gone[freed] = max(t.gone[freed], c.Seq)
		}
	}
	t.forgetGoneLocked()
}

// forgetGoneLocked drops what noteGone no longer has to remember.
func (t *tree) forgetGoneLocked() {
	if !t.loading.done {
		return
	}
	for path, seq := range t.gone {
		if seq <= t.applied {
			delete(t.gone, path)
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
