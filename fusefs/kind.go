package fusefs

// What a file is to the log, at its path in the mount. It is one of these at a time:
//
//	memory       the log has it there: head is what it has
//	hidden       it has a scratch name here; the log has head, at origin
//	mount-only   the log does not have it: it is yet to be committed, or scratch
//	superseded   another file has taken its place, and stands for it (now)
//	lost         another session has removed it, or has taken its place away
//	removed      this mount has removed it
//
// A file is made mount-only by a program, or a memory by the log. A commit makes a
// memory of it, and a rename to a scratch name hides it, until it comes back. The last
// three have no name any more, and end with those who have them open; one that is lost
// may be made a memory again by what is written to it.
//
// A directory is there, hidden (hide.go), or removed.

// isMemory reports whether n is a memory. No file at all is none.
func (n *node) isMemory() bool { return n != nil && !n.isDir() && !n.local && n.head != nil }

// isHidden reports whether n is hidden.
func (n *node) isHidden() bool { return n.origin != nil }

// isInLog reports whether n is a file that the log has, at its path or at another.
func (n *node) isInLog() bool { return n != nil && (n.isHidden() || n.isMemory()) }

// isMountOnly reports whether the log has n nowhere.
func (n *node) isMountOnly() bool { return n.local && !n.isHidden() }

// hasLocalName reports whether n has a name in a directory of this mount under which
// the log has something else, or nothing.
func (n *node) hasLocalName() bool { return n.local && n.hasName() }

// hasName reports whether n has a name in a directory.
func (n *node) hasName() bool { return n.parent != nil }

// isGoneLocked reports whether n stays only for those who have it open, so that nobody can
// find it by a name.
func (n *node) isGoneLocked() bool { return n.removed || n.succeededLocked() }

// isMemorySince reports whether n is a memory whose head is of that commit or a later one.
func (n *node) isMemorySince(seq uint64) bool { return n.isMemory() && n.head.Seq() >= seq }
