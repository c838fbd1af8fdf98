package session

import (
	"slices"

	"mneme/memory"
	"mneme/versionlog"
)

// Knowledge is what a session knows of a path: the version that it has read or
// written there last. Whatever the session replaces there, it means to replace
// that version. The zero value is that it knows nothing.
//
// Knowledge is a value: methods return what is known afterwards, and what was
// known before stays as it was. To a session that has read one of two versions
// with the same bytes, they are the same.
type Knowledge struct {
	head    *memory.Head // nil, if known: that there is no memory
	known   bool
	refused bool     // a write was refused, and no program has read the file since
	meant   bool     // a program has, or has viewed it whole: the next write is meant, whatever it takes back
	more    *details // nil: none
}

// details is the rarer half of a Knowledge. It is never changed in place.
type details struct {
	changes []Change // by others, which the session has only read; newest last, at most maxChanges
	ownTop  string   // id of the newest version that the session made on top of one that it may not have read
	length  int64    // how long a reader took the file to be before the newest change, in bytes; 0: not known
}

// maxChanges bounds the changes of one path. A text that lacks an older one lacks
// these, too.
const maxChanges = 4

// Nothing is the knowledge that there is no memory.
func Nothing() Knowledge { return Knowledge{known: true} }

// Of is the knowledge that v is there; nil is Nothing.
func Of(v *memory.Head) Knowledge { return Knowledge{head: v, known: true} }

// Removed returns what the session knows after it has removed the memory: that there is none. The
// changes by others stay, and what it then makes there is judged by them.
func (k Knowledge) Removed() Knowledge {
	gone := Nothing()
	if !k.meant {
		gone.more = k.onlyChanges()
	}
	return gone
}

// Absent returns what the session knows when it makes a memory where there is none.
func (k Knowledge) Absent() Knowledge {
	if k.known && k.head == nil {
		return k
	}
	return Nothing()
}

// IsKnown reports whether the session knows anything of the path.
func (k Knowledge) IsKnown() bool { return k.known }

// Head returns the version that the session knows; nil: none, or that there is
// no memory.
func (k Knowledge) Head() *memory.Head { return k.head }

// WasRefused reports whether a write was refused, and no program has read the file since.
func (k Knowledge) WasRefused() bool { return k.refused }

// Stale reports whether another session has put head there since, which this session does not
// know. A memory that is gone is not stale: a program that makes it again was told by the lookup
// that it is not there, and the history has it.
func (k Knowledge) Stale(head *memory.Head) bool {
	if !k.known || head == nil {
		return false
	}
	return k.head == nil || !memory.SameText(k.head, head)
}

// Expected returns what a writer means to replace where the log has head.
func (k Knowledge) Expected(head *memory.Head) *memory.Head {
	if k.Stale(head) {
		return k.head
	}
	return head
}

// Read returns what the session knows after it has read v.
func (k Knowledge) Read(v *memory.Head) Knowledge {
	own := k.ownTop() != "" && k.ownTop() == v.ID()
	next := Knowledge{head: v, known: true, meant: k.refused || k.meant && (own || !k.Stale(v)), more: k.onlyChanges()}
	switch {
	case own:
	case k.Stale(v), !k.known && 0 < k.length() && k.length() < v.Size():
		next.more = &details{changes: k.changesTo(v)}
	}
	return next
}

// Viewed returns what the session knows after v, which it has read, was shown whole to the
// writer: the next write is meant, whatever it takes back.
func (k Knowledge) Viewed(v *memory.Head) Knowledge {
	if k.known && !k.Stale(v) {
		k.meant = true
	}
	return k
}

// Wrote returns what the session knows after it has made v from the version that it knew.
func (k Knowledge) Wrote(v *memory.Head) Knowledge {
	return Knowledge{head: v, known: true, refused: k.refused, more: k.onlyChanges()}
}

// Added returns what the session knows after it has made v of under, which it may
// not have read, by appending to it or merging with it. It does not know v then.
func (k Knowledge) Added(v, under *memory.Head) Knowledge {
	next := details{changes: k.Changes(), length: k.length(), ownTop: v.ID()}
	if k.Stale(under) && k.ownTop() != under.ID() {
		next.changes, k.meant = k.changesTo(under), false
	}
	k.more = &next
	return k
}

// Appended is Added for an append; under is nil where there was no memory. A
// session that knew under knows v, and what it means to write is still meant.
func (k Knowledge) Appended(v, under *memory.Head) Knowledge {
	if !k.knows(under) {
		return k.Added(v, under)
	}
	next := k.Wrote(v)
	next.meant = k.meant
	return next
}

// Merged is Added for a merge. A session that knew under knows v.
func (k Knowledge) Merged(v, under *memory.Head) Knowledge {
	if !k.knows(under) {
		return k.Added(v, under)
	}
	return k.Wrote(v)
}

// knows reports whether the session knows the version under what it has made.
func (k Knowledge) knows(under *memory.Head) bool {
	return under == nil || k.known && !k.Stale(under)
}

// Refused returns what is known after a write was refused: the next read makes the
// write after it one that is meant.
func (k Knowledge) Refused() Knowledge {
	k.refused = true
	return k
}

// NotRefused is the inverse of Refused.
func (k Knowledge) NotRefused() Knowledge {
	k.refused = false
	return k
}

// WithLength notes how long the file was before the newest change, in bytes, as far
// as its readers can know: a program may have read it up to there.
func (k Knowledge) WithLength(size int64) Knowledge {
	if k.length() != size {
		k.more = &details{changes: k.Changes(), ownTop: k.ownTop(), length: size}
	}
	return k
}

// Asks reports whether it matters that a write is based on what was read through
// the same handle.
func (k Knowledge) Asks() bool { return k.refused || len(k.Changes()) > 0 }

// OnlyRead reports whether the session knows a version that is another session's change of the
// version that it knew before, and that it has done no more than read. A program that removes the
// file without having been told of it may mean the earlier version.
func (k Knowledge) OnlyRead() bool {
	changes := k.Changes()
	if len(changes) == 0 || k.meant {
		return false
	}
	last := changes[len(changes)-1]
	return last.Known && memory.SameText(last.To, k.head) && k.head.Size() > 0
}

// Precedes reports whether v is the next version after the one that is known.
func (k Knowledge) Precedes(v *versionlog.Version) bool {
	if k.head == nil {
		return k.known && v.Parent == ""
	}
	return k.head.ID() == v.Parent
}

// Changes returns the changes by others that the session has only read, the newest
// last. They must not be changed.
func (k Knowledge) Changes() []Change {
	if k.more == nil {
		return nil
	}
	return k.more.changes
}

// ToJudge returns the changes that a write is judged by; nil when it is meant.
func (k Knowledge) ToJudge() []Change {
	if k.meant {
		return nil
	}
	return k.Changes()
}

// WithoutOlder drops the changes that were made before a sequence number.
func (k Knowledge) WithoutOlder(seq uint64) Knowledge {
	if changes := k.Changes(); len(changes) > 0 {
		changes = slices.DeleteFunc(slices.Clone(changes), func(one Change) bool { return one.To.Seq() < seq })
		k.more = newDetails(details{changes: changes, ownTop: k.ownTop(), length: k.length()})
	}
	return k
}

// newHistory keeps a history that says something.
func newDetails(h details) *details {
	if len(h.changes) == 0 && h.ownTop == "" && h.length == 0 {
		return nil
	}
	return &h
}

// onlyChanges returns the history without what was of the version before.
func (k Knowledge) onlyChanges() *details {
	if k.more == nil || k.more.ownTop == "" && k.more.length == 0 {
		return k.more
	}
	return newDetails(details{changes: k.more.changes})
}

// changesTo returns the changes with one more.
func (k Knowledge) changesTo(v *memory.Head) []Change {
	kept := k.Changes()
	kept = kept[max(0, len(kept)-maxChanges+1):]
	return append(slices.Clone(kept), Change{From: k.head, Known: k.known, To: v, Cut: k.length()})
}

func (k Knowledge) ownTop() string {
	if k.more == nil {
		return ""
	}
	return k.more.ownTop
}

func (k Knowledge) length() int64 {
	if k.more == nil {
		return 0
	}
	return k.more.length
}
