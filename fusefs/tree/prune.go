package tree

// PruneLocked removes directories that only held what is gone.
func (t *Tree) PruneLocked(dir *Entry) {
	for dir != t.root && len(dir.children) == 0 && !dir.HidesLocked() && !dir.stays && dir.marker == 0 && dir.parent != nil {
		if !t.AllOfLocked(dir) {
			t.doubtLocked(dir)
			return
		}
		parent := dir.parent
		t.told.NameLocked(parent, dir.name, nil)
		t.DetachLocked(dir)
		dir = parent
	}
}

// doubtLocked notes that a directory looks empty of which the tree does not know
// everything, and finds out.
func (t *Tree) doubtLocked(dir *Entry) {
	if t.loading.doubtful[dir] {
		return
	}
	t.loading.doubtful[dir] = true
	t.begin(func() { _ = t.list(t.life, dir) }) // the walk will get there, too
}
