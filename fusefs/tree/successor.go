package tree

import (
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Another session's version of a file, or its rename of one, is a new file here: it gets an
// entry, and with it an inode, of its own, as if it had been renamed over the old one. A program
// that has the old file open or mapped continues to read the version that it opened; a lookup of
// the name finds the new one. The kernel cuts what it reads at the size that it knows and keeps
// what it has read page by page, so that in one inode a reader could get bytes of two versions.

// StandAloneLocked makes n stand for itself, whatever has taken its place.
func (n *Entry) StandAloneLocked() { n.setAside().line = nil }

// SupersedeLocked makes v, by another session, the head of n's memory, which has the name in dir:
// n's own, or the one that it has been given. It returns the entry that has the name afterwards.
// Bytes that are being written to n stay as they are, with the same base.
func (t *Tree) SupersedeLocked(n *Entry, dir *Entry, name string, v versionlog.Version) *Entry {
	head := memory.NewHead(&v)
	used, length := t.told.SupersedingLocked(n, head)
	spelling := n.spelling
	if n.head == nil || n.spelledInLog != v.Spelling || n.name != name {
		spelling = "" // v says how
	}
	m := n
	if used {
		m = t.newEntry(n.ModeLocked(), v.Time)
		n.noteLastPathLocked()
		n.parent = nil
		n.SetUnloggedLocked(false)
		n.changedLocked()
	}
	t.AttachLocked(dir, name, m)
	if m.setSpelling(spelling); !HasOneForm(name) {
		t.told.ListingLocked(dir)
	}
	if m != n {
		if n.line == nil {
			n.setAside().line = &line{}
		}
		n.line.last, m.setAside().line = m, n.line
	}
	m.SetHeadLocked(head, v.Spelling)
	m.SetUnloggedLocked(false)
	if length >= 0 {
		t.session.Seen(v.Path, length)
	}
	m.SetTimesLocked(v.Time)
	if !m.atime.IsZero() {
		m.setAside().atime = time.Time{}
	}
	if m != n {
		t.told.NameLocked(dir, name, m)
	}
	return m
}

// setSuccessorLocked makes m the entry that now stands for n's memory: a write to n has made it,
// where the memory was gone, or where another session had moved away the entry that it had put in
// n's place.
func (n *Entry) setSuccessorLocked(m *Entry) {
	last := n.LatestLocked()
	_, there := last.PathLocked()
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
