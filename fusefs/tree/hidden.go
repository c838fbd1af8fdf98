package tree

import (
	"strings"
)

// A memory that is renamed to a scratch name is hidden: absent here, while in the
// log it stays the head. An editor that saves by renaming the old file away then
// writes the next version of the same memory, and one that dies in between has
// lost nothing.
//
// A directory whose memories are all hidden lists nothing, and can be removed. It is hidden then,
// too: it has its parent and its name still, so that what is hidden in it has a path, but is not
// among the parent's children. It comes back with the next directory of that name, and ends with
// the last that it hides. Any other entry that gets its name takes its place: then the memories
// that it hides are removed.

// hideFromLocked notes that n, which is committed at dir/name, has a scratch name now.
func (t *Tree) hideFromLocked(dir *Entry, name string, n *Entry) {
	if dir.hidden == nil {
		dir.hidden = map[string]*Entry{}
	}
	dir.hidden[name] = n
	n.SetUnloggedLocked(true)
	n.setAside().origin = &origin{dir: dir, name: name}
}

// UnhideLocked ends what HideLocked began: n is a scratch file and nothing more.
func (t *Tree) UnhideLocked(n *Entry) {
	o := n.origin
	if o == nil {
		return
	}
	n.setAside().origin = nil
	if o.dir.hidden[o.name] != n {
		return
	}
	delete(o.dir.hidden, o.name)
	for dir := o.dir; dir.isHiddenDir() && !dir.HidesLocked(); {
		if path, ok := dir.PathLocked(); ok && dir.marker != 0 { // it was removed, and the log still has it
			t.StillEmptiedLocked(path, dir.marker)
		}
		up := dir.parent
		delete(up.hiddenDirs, dir.name)
		dir.parent = nil
		t.told.PlacedLocked(dir)
		dir = up
	}
}

// StillEmptiedLocked notes a directory, with its marker, that must still be taken out of the log:
// it was removed here, and no longer hides anything.
func (t *Tree) StillEmptiedLocked(path string, marker uint64) {
	t.emptied[path] = marker
	t.hasEmptied.Store(true)
}

// revealLocked is UnhideLocked where another session has taken the path away at which n is
// hidden: what the session knows of that stays known.
func (t *Tree) revealLocked(n *Entry, path string) {
	t.UnhideLocked(n)
	t.session.Went(path)
}

// hideDirLocked takes a directory that hides memories out of the tree.
func (n *Entry) hideDirLocked() {
	delete(n.parent.children, n.name)
	if n.parent.hiddenDirs == nil {
		n.parent.hiddenDirs = map[string]*Entry{}
	}
	n.parent.hiddenDirs[n.name] = n
}

func (n *Entry) isHiddenDir() bool { return n.parent != nil && n.parent.hiddenDirs[n.name] == n }

// HasPlaceLocked reports whether a directory has a path at which it is seen.
func (n *Entry) HasPlaceLocked() bool {
	_, ok := n.PathLocked()
	return ok && !n.isHiddenDir()
}

// HidesLocked reports whether memories are hidden directly in n, or in directories that
// are hidden there.
func (n *Entry) HidesLocked() bool { return len(n.hidden)+len(n.hiddenDirs) > 0 }

// takeOverHiddenLocked gives n, the directory that is made under a hidden one's name, what that
// hides.
func (n *Entry) takeOverHiddenLocked(old *Entry) {
	for name, h := range old.hidden {
		if n.hidden == nil {
			n.hidden = map[string]*Entry{}
		}
		n.hidden[name] = h
		h.origin.dir = n
	}
	for name, d := range old.hiddenDirs {
		if c := n.children[name]; c != nil && c.IsDir() {
			c.takeOverHiddenLocked(d)
			continue
		}
		d.parent = n
		d.hideDirLocked()
	}
	old.hidden, old.hiddenDirs, old.parent = nil, nil, nil
	n.tree.told.PlacedLocked(old)
}

// EachHiddenLocked calls do with everything that is hidden in dir or, where that is in a
// directory that is hidden itself, below it.
func (n *Entry) EachHiddenLocked(do func(*Entry)) {
	for _, h := range n.hidden {
		do(h)
	}
	for _, d := range n.hiddenDirs {
		d.EachHiddenLocked(do)
	}
}

// IsHiddenFromLocked reports whether n is a memory that a directory has under a name, and that is hidden.
func (n *Entry) IsHiddenFromLocked(dir *Entry, name string) bool {
	return n.origin != nil && n.origin.dir == dir && n.origin.name == name
}

// FindHiddenLocked returns the file that this mount hides at a path, or nil, as at "".
func (t *Tree) FindHiddenLocked(path string) *Entry {
	if path == "" {
		return nil
	}
	n := t.root
	dir, name := Split(path)
	for dir != "" {
		segment, rest, _ := strings.Cut(dir[1:], "/")
		child := n.children[segment]
		if child == nil || !child.IsDir() {
			child = n.hiddenDirs[segment]
		}
		if child == nil {
			return nil
		}
		n, dir = child, ""
		if rest != "" {
			dir = "/" + rest
		}
	}
	return n.hidden[name]
}
