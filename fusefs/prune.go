package fusefs

// pruneLocked removes directories that only held what is gone.
func (t *tree) pruneLocked(dir *node) {
	for dir != t.root && len(dir.children) == 0 && !dir.hides() && !dir.kept && dir.marker == 0 && dir.parent != nil {
		if !t.knowsLocked(dir) {
			t.doubtLocked(dir)
			return
		}
		parent := dir.parent
		t.told.NameLocked(parent, dir.name, nil)
		t.detachLocked(dir)
		dir = parent
	}
}

// doubtLocked notes that a directory looks empty of which the tree does not know
// everything, and finds out.
func (t *tree) doubtLocked(dir *node) {
	if t.loading.doubtful[dir] {
		return
	}
	t.loading.doubtful[dir] = true
	t.begin(func() { _ = t.list(t.life, dir) }) // the walk will get there, too
}
