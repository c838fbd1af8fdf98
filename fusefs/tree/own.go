package tree

import (
	"syscall"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// MakeFileLocked makes a file of this mount only.
func (t *Tree) MakeFileLocked(dir *Entry, name string, mode uint32, now time.Time) *Entry {
	n := t.newEntry(syscall.S_IFREG|mode&0o777, now)
	n.unlogged = true
	t.AttachLocked(dir, name, n)
	dir.TouchLocked(now)
	return n
}

// CommittedLocked makes head, of v, which holds what was written to n and is at n's path, its head.
func (t *Tree) CommittedLocked(n *Entry, v *versionlog.Version, head *memory.Head) {
	if !n.IsMemorySinceLocked(v.Seq) {
		n.SetHeadLocked(head, v.Spelling)
	}
	if hidden := n.parent.hidden[n.name]; hidden != nil && n.unlogged {
		t.UnhideLocked(hidden)
	}
	n.parent.holdsMemoryLocked()
	n.SetUnloggedLocked(false)
}

// CommittedElsewhereLocked is CommittedLocked where another session's commit has taken n's place. It
// returns what is at v's path, and stands for n from now on; nil: something else is there.
func (t *Tree) CommittedElsewhereLocked(n *Entry, v *versionlog.Version, head *memory.Head) (there *Entry) {
	t.ShowLocked(*v)
	if m := t.FindLocked(v.Path); m != nil && memory.SameVersion(m.head, head) {
		n.setSuccessorLocked(m)
		there = m
	}
	if !n.HasNameLocked() || !n.IsMemorySinceLocked(v.Seq) { // else this mount has moved it since
		n.SetHeadLocked(head, v.Spelling)
	}
	return there
}

// ReplacedLocked makes v, which a file that replaces a memory was committed as, its head at its new
// name. displaced is what the rename has removed; nil: nothing.
func (t *Tree) ReplacedLocked(m *Move, v *versionlog.Version) (displaced *Entry) {
	if hidden := m.To.hidden[m.New]; hidden != nil {
		t.UnhideLocked(hidden)
	}
	t.UnhideLocked(m.Entry)
	displaced = t.TakeLocked(m)
	m.Entry.SetHeadLocked(memory.NewHead(v), v.Spelling)
	m.Entry.SetUnloggedLocked(false)
	m.To.holdsMemoryLocked()
	return displaced
}

// RemovedLocked takes out of the tree what this mount has removed.
func (t *Tree) RemovedLocked(n *Entry) {
	n.removed = true
	now := time.Now()
	n.SetCTimeLocked(now)
	if dir := n.parent; dir != nil {
		dir.TouchLocked(now)
		dir.SetStaysLocked(true)
		dir.changedLocked()
	}
	t.DetachLocked(n)
}

// MadeDirLocked brings a directory into the tree that this mount has made in the log. The
// directory that it is in may have been moved or removed meanwhile by another session.
func (t *Tree) MadeDirLocked(dir *Entry, name, path string, mode uint32, v *versionlog.Version) *Entry {
	if at, ok := dir.ChildPathLocked(name); !ok || at != path || dir.children[name] != nil {
		t.installDirLocked(*v)
		n := t.FindDirLocked(path)
		n.mode = n.mode&^0o777 | uint16(mode&0o777)
		return n
	}
	n := t.MakeDirLocked(dir, name, mode, v.Time, v.Seq)
	n.markerOf = v.MemoryID
	return n
}

// MakeDirLocked makes the entry of a directory in which nothing is.
func (t *Tree) MakeDirLocked(dir *Entry, name string, mode uint32, at time.Time, marker uint64) *Entry {
	n := t.newEntry(syscall.S_IFDIR|mode&0o777, at)
	n.marker, n.stays, n.made, n.complete = marker, true, true, true
	t.AttachLocked(dir, name, n)
	dir.TouchLocked(at)
	return n
}

// RemovedDirLocked takes an empty directory out of the tree.
func (t *Tree) RemovedDirLocked(dir, n *Entry, canonical, name string) {
	n.removed = true
	dir.TouchLocked(time.Now())
	dir.SetStaysLocked(true)
	dir.changedLocked()
	if canonical != name {
		t.told.NameLocked(dir, canonical, nil)
	}
	if n.HidesLocked() {
		n.hideDirLocked()
	} else {
		t.DetachLocked(n)
	}
}

// EmptiedThereLocked reports whether the log still has a directory that was removed here while it
// hid memories, so that it comes back under its name with its marker.
func (t *Tree) EmptiedThereLocked(dir *Entry, name, path string) (marker uint64, there bool) {
	hidden, marker := dir.hiddenDirs[name], t.emptied[path]
	if hidden != nil {
		marker = hidden.marker
	}
	delete(t.emptied, path)
	return marker, hidden != nil || marker != 0
}
