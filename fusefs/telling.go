package fusefs

import (
	"slices"

	"mneme/memory"
	"mneme/session"
)

// telling tells the kernel, open files and the notes for the next process what changes in the
// names of a store.
type telling struct{ s *store }

// NameLocked says that a name of a directory means something else now: n, if that is not nil.
func (t telling) NameLocked(dir *node, name string, n *node) {
	number := t.s.fs.notify.entryLocked(dir, name)
	if n != nil {
		n.setNamed(number)
	}
}

// ListingLocked says that a name of a directory is spelled otherwise in its listing.
func (t telling) ListingLocked(dir *node) {
	dir.Cache().Respelled = true
	if t.s.fs.noOpen && dir.lookups() > 0 { // where the kernel opens directories by itself
		t.s.fs.notify.Content(dir.id)
	}
}

// AttributesLocked says that n has other attributes.
func (t telling) AttributesLocked(n *node) { t.s.fs.notify.attributesLocked(n) }

// ContentLocked says that n's head has other bytes than it had.
func (t telling) ContentLocked(n *node) {
	if n.content() != nil {
		t.s.fs.holdLocked(n, nil)
	}
}

// RenamedLocked says that a rename by this session made n's head of the version parent: what is
// based on that is based on the head.
func (t telling) RenamedLocked(n *node, parent string) {
	if st := n.stage(); st != nil && st.base != nil && st.base.ID() == parent {
		st.base = n.head
	}
}

// SupersedingLocked asks, before head takes n's place or, if nobody uses n, becomes its head,
// whether anybody uses it. length is how long the kernel took the file to be; below 0: it has
// not looked.
func (t telling) SupersedingLocked(n *node, head *memory.Head) (used bool, length int64) {
	t.s.giveWayLocked(n, head)
	length = -1
	if n.had().cache.Looked != 0 {
		length = n.sizeLocked()
	}
	if n.usedLocked() {
		if st := n.stage(); st != nil && st.dirty && !st.tails && !memory.SameText(st.base, head) {
			st.overtaken = true
		}
		return true, length
	}
	if n.known() != nil {
		n.Cache().Supersede()
	}
	return false, length
}

// PlacedLocked says that n has got its place, has lost it, or stays or not when it is empty.
func (t telling) PlacedLocked(n *node) {
	n.markLocked()
	if n.parent == nil {
		t.s.fs.collectLocked(n)
		return
	}
	t.s.fs.nodes[n.id] = n
	t.s.fs.reckonLocked(n, n.stage())
	n.reckonDirLocked()
}

// ChangedLocked says that something else about n has changed.
func (t telling) ChangedLocked(n *node) { n.markLocked() }

// usedLocked reports whether anybody may know n by its inode.
func (n *node) usedLocked() bool {
	return n.lookups() > 0 || n.opens() > 0 || n.stage() != nil || n.had().cache.Pushing()
}

// giveWayLocked drops a scratch file that nobody has open, and keeps its text as a
// conflict: another session has put v in its place.
func (s *store) giveWayLocked(n *node, v *memory.Head) {
	st := n.stage()
	if st == nil || !st.dirty || st.writers > 0 {
		return
	}
	l := session.Loss{Path: v.Path(), Theirs: v, Yours: slices.Clone(st.data)}
	s.fs.tasks.Go(func() { s.session.Keep(s.fs.ctx, l) })
	n.setStageLocked(nil)
	s.fs.reckonLocked(n, st)
}
