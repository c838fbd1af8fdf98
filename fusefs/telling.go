package fusefs

import (
	"slices"

	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/session"
)

// telling tells the kernel, open files and the notes for the next process what changes in the
// names of a store.
type telling struct{ s *store }

// NameLocked says that a name of a directory means something else now: n, if that is not nil.
func (t telling) NameLocked(dir *tree.Entry, name string, n *tree.Entry) {
	number := t.s.fs.notify.entryLocked(dir, name)
	if n != nil {
		setNameNotice(n, number)
	}
}

// ListingLocked says that a name of a directory is spelled otherwise in its listing.
func (t telling) ListingLocked(dir *tree.Entry) {
	cacheOf(dir).Respelled = true
	if t.s.fs.noOpen && lookupsOf(dir) > 0 { // where the kernel opens directories without asking
		t.s.fs.notify.Content(dir.ID())
	}
}

// AttributesLocked says that n has other attributes.
func (t telling) AttributesLocked(n *tree.Entry) { t.s.fs.notify.attributesLocked(n) }

// ContentLocked says that n's head has other bytes than it had.
func (t telling) ContentLocked(n *tree.Entry) {
	if keptContent(n) != nil {
		t.s.fs.holdLocked(n, nil)
	}
}

// RenamedLocked says that a rename by this session made n's head of the version parent: what is
// based on that is based on the head.
func (t telling) RenamedLocked(n *tree.Entry, parent string) {
	if st := stageOf(n); st != nil && st.base != nil && st.base.ID() == parent {
		st.base = n.HeadLocked()
	}
}

// SupersedingLocked asks, before head takes n's place or, if n is not in use, becomes its head,
// whether n is in use. length is how long programs took the file to be; below 0: none has looked.
func (t telling) SupersedingLocked(n *tree.Entry, head *memory.Head) (used bool, length int64) {
	t.s.keepScratchLocked(n, head)
	length = -1
	if n.IsLengthToldLocked() {
		length = sizeLocked(n)
	}
	if usedLocked(n) {
		if st := stageOf(n); st != nil && st.dirty && !st.appendOnly && !memory.SameText(st.base, head) {
			st.overtaken = true
		}
		return true, length
	}
	n.SetLengthToldLocked(false)
	if inodeOrNil(n) != nil {
		cacheOf(n).Supersede()
	}
	return false, length
}

// PlacedLocked says that n has got its place, has lost it, or stays or not when it is empty.
func (t telling) PlacedLocked(n *tree.Entry) {
	markLocked(n)
	if n.ParentLocked() == nil {
		t.s.fs.collectLocked(n)
		accountDirLocked(n) // the kernel may know it still
		return
	}
	t.s.fs.nodes[n.ID()] = n
	t.s.fs.accountStageLocked(n, stageOf(n))
	accountDirLocked(n)
}

// ChangedLocked says that something else about n has changed.
func (t telling) ChangedLocked(n *tree.Entry) { markLocked(n) }

// usedLocked reports whether the kernel or a program may know n by its inode.
func usedLocked(n *tree.Entry) bool {
	return lookupsOf(n) > 0 || opensOf(n) > 0 || stageOf(n) != nil || inodeOf(n).cache.Pushing()
}

// keepScratchLocked drops a scratch file that no program has open, and keeps its text as a
// conflict: another session has put v in its place.
func (s *store) keepScratchLocked(n *tree.Entry, v *memory.Head) {
	st := stageOf(n)
	if st == nil || !st.dirty || st.writers > 0 {
		return
	}
	l := session.Loss{Path: v.Path(), Theirs: v, Yours: slices.Clone(st.data)}
	s.fs.tasks.Go(func() { s.session.Keep(s.fs.ctx, l) })
	setStageLocked(n, nil)
	s.fs.accountStageLocked(n, st)
}
