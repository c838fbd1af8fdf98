package tree

import "fmt"

// checkLocked says what of a tree contradicts its invariants, or "".
func (t *Tree) checkLocked() (wrong string) {
	note := func(format string, args ...any) { wrong += fmt.Sprintf(format, args...) + "\n" }
	var counted Counts
	var walkLocked func(n *Entry, hiddenDir bool)
	walkLocked = func(n *Entry, hiddenDir bool) {
		path, ok := n.PathLocked()
		if !ok {
			note("%q is in the tree and has no path", n.name)
		}
		if n.IsMemoryLocked() && n.head.Path() != path {
			note("%s has the head of %s", path, n.head.Path())
		}
		if n.IsGoneLocked() && !hiddenDir {
			note("%s is there, though it is gone", path)
		}
		if !n.IsDir() {
			switch {
			case !n.IsMemoryLocked() && !n.unlogged:
				note("%s is no memory, and nothing of the mount's", path)
			case n.unlogged || n.edited:
				counted.Uncommitted++
			default:
				counted.Memories++
			}
			if o := n.origin; o != nil && (o.dir.hidden[o.name] != n || n.head == nil) {
				note("%s is hidden where nobody looks", path)
			}
			return
		}
		if idle := len(n.children) == 0 && !n.HidesLocked() && !n.stays && n.marker == 0; idle && n != t.root && t.loading.done {
			note("%s is there for no reason", path)
		}
		for name, c := range n.children {
			if c.parent != n || c.name != name {
				note("%s has %q, whose name is %q", path, name, c.name)
			}
			walkLocked(c, false)
		}
		for name, c := range n.hidden {
			if c.origin == nil || c.origin.dir != n || c.origin.name != name || !c.unlogged {
				note("%s hides %q, which does not know that", path, name)
			}
			if _, ok := c.PathLocked(); !ok {
				note("%s hides %q, which has no name", path, name)
			}
		}
		for name, d := range n.hiddenDirs {
			if d.parent != n || d.name != name || !d.HidesLocked() {
				note("%s hides the directory %q, which hides nothing", path, name)
			}
			walkLocked(d, true)
		}
	}
	walkLocked(t.root, false)
	if has := t.CountsLocked(); has != counted {
		note("it counts %+v, and has %+v", has, counted)
	}
	return wrong
}
