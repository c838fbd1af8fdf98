package fusefs

import (
	"time"
)

// restoreLocked makes again what a mount that was taken over had, and the log does not have: a
// directory, or a file.
func (t *tree) restoreLocked(dir *node, name string, mode uint32, at time.Time) *node {
	n := t.newNode(mode, at)
	if n.isDir() {
		n.complete = true
	} else {
		n.local = true
	}
	t.attachLocked(dir, name, n)
	return n
}

// restoreGoneLocked makes again what has no place any more, for those who have it open.
func (t *tree) restoreGoneLocked(mode uint32, at time.Time, was string, removed bool) *node {
	n := t.newNode(mode, at)
	n.removed, n.setAside().was = removed, was
	return n
}

// renumber gives n the number that the kernel knows it by.
func (n *node) renumber(id uint64) { n.id = id }
