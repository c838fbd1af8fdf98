package tree

import (
	"time"
)

// RestoreLocked makes again what a mount that was taken over had, and the log does not have: a
// directory, or a file.
func (t *Tree) RestoreLocked(dir *Entry, name string, mode uint32, at time.Time) *Entry {
	n := t.newEntry(mode, at)
	if n.IsDir() {
		n.complete = true
	} else {
		n.unlogged = true
	}
	t.AttachLocked(dir, name, n)
	return n
}

// RestoreGoneLocked makes again an entry that no longer has a place, for the programs that have
// it open.
func (t *Tree) RestoreGoneLocked(mode uint32, at time.Time, was string, removed bool) *Entry {
	n := t.newEntry(mode, at)
	n.removed, n.setAside().lastPath = removed, was
	return n
}

// RenumberLocked gives n the number that the kernel knows it by.
func (n *Entry) RenumberLocked(id uint64) { n.id = id }
