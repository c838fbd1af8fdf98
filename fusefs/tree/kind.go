package tree

// A file has one of these kinds at a time, which says what it is to the log, at its path in the
// mount:
//
//	memory       the log has it there: head is what it has
//	hidden       it has a scratch name here; the log has head, at origin
//	mount-only   the log does not have it: it is yet to be committed, or scratch
//	superseded   another file has taken its place, and stands for it (LatestLocked)
//	lost         another session has removed it, or has taken its place away
//	removed      this mount has removed it
//
// A file is made mount-only by a program, or a memory by the log. A commit makes a memory of it,
// and a rename to a scratch name hides it, until it comes back. The last three no longer have a
// name, and end with the programs that have them open; a write to one that is lost may make it a
// memory again.
//
// A directory is there, hidden (hidden.go), or removed.

// IsMemoryLocked reports whether n is a memory. No file at all is none.
func (n *Entry) IsMemoryLocked() bool { return n != nil && !n.IsDir() && !n.unlogged && n.head != nil }

// IsHiddenLocked reports whether n is hidden.
func (n *Entry) IsHiddenLocked() bool { return n.origin != nil }

// InLogLocked reports whether n is a file that the log has, at its path or at another.
func (n *Entry) InLogLocked() bool { return n != nil && (n.IsHiddenLocked() || n.IsMemoryLocked()) }

// IsMountOnlyLocked reports whether the log has n nowhere.
func (n *Entry) IsMountOnlyLocked() bool { return n.unlogged && !n.IsHiddenLocked() }

// HasUnloggedNameLocked reports whether n has a name in a directory of this mount under which
// the log has something else, or nothing.
func (n *Entry) HasUnloggedNameLocked() bool { return n.unlogged && n.HasNameLocked() }

// HasNameLocked reports whether n has a name in a directory.
func (n *Entry) HasNameLocked() bool { return n.parent != nil }

// IsGoneLocked reports whether n stays only for programs that have it open, so that no lookup can
// find it by a name.
func (n *Entry) IsGoneLocked() bool { return n.removed || n.IsSupersededLocked() }

// IsMemorySinceLocked reports whether n is a memory whose head is of that commit or a later one.
func (n *Entry) IsMemorySinceLocked(seq uint64) bool {
	return n.IsMemoryLocked() && n.head.Seq() >= seq
}
