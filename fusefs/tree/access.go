package tree

import (
	"iter"
	"maps"
	"time"

	"mneme/memory"
)

// ID returns the inode number.
func (n *Entry) ID() uint64 { return n.id }

// Tree returns the tree that n is in; nil: n is a directory above trees.
func (n *Entry) Tree() *Tree { return n.tree }

// ParentLocked returns the directory that n is in; nil: none.
func (n *Entry) ParentLocked() *Entry { return n.parent }

// NameLocked returns n's name in that directory, in NFC, or the last that it had.
func (n *Entry) NameLocked() string { return n.name }

// HeadLocked returns the version that a reader gets where nothing is being written; nil: there is none.
func (n *Entry) HeadLocked() *memory.Head { return n.head }

// ModeLocked returns the type and the permissions.
func (n *Entry) ModeLocked() uint32 { return uint32(n.mode) }

// ModeIsChosenLocked reports whether SetModeChosenLocked was called.
func (n *Entry) ModeIsChosenLocked() bool { return n.aside.modeChosen }

// MTimeLocked returns when the content of n was changed.
func (n *Entry) MTimeLocked() time.Time { return n.mtime.time() }

// CTimeLocked returns when n was changed.
func (n *Entry) CTimeLocked() time.Time { return n.ctime.time() }

// ATimeLocked returns when n was read last, as far as a program has said so; zero: none has.
func (n *Entry) ATimeLocked() time.Time { return n.atime }

// IsRemovedLocked reports whether this mount has removed n, or is about to.
func (n *Entry) IsRemovedLocked() bool { return n.removed }

// IsUnloggedLocked reports whether the log has something else at n's path, or nothing.
func (n *Entry) IsUnloggedLocked() bool { return n.unlogged }

// IsLengthToldLocked reports whether a program may have been told how long n's head is.
func (n *Entry) IsLengthToldLocked() bool { return n.lengthTold }

// SetLengthToldLocked notes that, or that n has another head.
func (n *Entry) SetLengthToldLocked(told bool) { n.lengthTold = told }

// StaysLocked reports whether a directory stays when it is empty.
func (n *Entry) StaysLocked() bool { return n.stays }

// IsMadeHereLocked reports whether this mount has made a directory.
func (n *Entry) IsMadeHereLocked() bool { return n.made }

// MarkerLocked returns the commit that made a directory, or moved it here; 0: the log does not have
// it itself.
func (n *Entry) MarkerLocked() uint64 { return n.marker }

// LastPathLocked returns where n was when another session took its place away.
func (n *Entry) LastPathLocked() string { return n.lastPath }

// IsMkstempLocked reports whether n was made under a name that is meant to be temporary.
func (n *Entry) IsMkstempLocked() bool { return n.mkstemp }

// IsProbeLocked reports whether n was made to find out whether files can be made.
func (n *Entry) IsProbeLocked() bool { return n.probe }

// ChildLocked returns what has a name, in NFC, in a directory; nil: nothing.
func (n *Entry) ChildLocked(name string) *Entry { return n.children[name] }

// CountLocked returns how many names a directory lists.
func (n *Entry) CountLocked() int { return len(n.children) }

// ChildrenLocked returns what a directory lists, by name.
func (n *Entry) ChildrenLocked() iter.Seq2[string, *Entry] { return maps.All(n.children) }

// HiddenAtLocked returns the memory that the log has under a name in a directory, and that is hidden;
// nil: none.
func (n *Entry) HiddenAtLocked(name string) *Entry { return n.hidden[name] }

// HiddenLocked returns all of these.
func (n *Entry) HiddenLocked() iter.Seq2[string, *Entry] { return maps.All(n.hidden) }

// HiddenDirLocked returns the directory that had a name in another, and was removed while it hid
// memories; nil: none.
func (n *Entry) HiddenDirLocked(name string) *Entry { return n.hiddenDirs[name] }

// HiddenDirsLocked returns all of these.
func (n *Entry) HiddenDirsLocked() iter.Seq2[string, *Entry] { return maps.All(n.hiddenDirs) }

// Owner returns what the tree belongs to, which its maker has said.
func (t *Tree) Owner() any { return t.owner }

// Root returns the directory of the store.
func (t *Tree) Root() *Entry { return t.root }

// AppliedLocked returns the sequence number up to which the tree has every commit.
func (t *Tree) AppliedLocked() uint64 { return t.applied }

// CountsLocked returns how many files the tree has.
func (t *Tree) CountsLocked() Counts { return t.counts }

// FreedSinceLocked returns the sequence number of the commit that has freed a path, as long as
// that matters; 0: none has.
func (t *Tree) FreedSinceLocked(path string) uint64 { return t.freed[path] }
