package fusefs

// count counts n as what it is by now, in place of what it was. It follows every change
// of its place, and of whether it differs from the log. What is below a directory comes
// and goes with it.
func (n *node) count() {
	is := n.countsAs()
	if is == n.as {
		return
	}
	n.tree.tally.add(n.as, -1)
	n.tree.tally.add(is, 1)
	n.as = is
	for _, c := range n.children {
		c.count()
	}
}

// setLocal notes that n's head is not what the log has at its path, or that it is.
func (n *node) setLocal(local bool) {
	n.local = local
	n.count()
}

// setEdited notes whether what is being written to n differs from its head.
func (n *node) setEdited(edited bool) {
	n.edited = edited
	n.count()
}

// countsAs is what n is by now.
func (n *node) countsAs() tallied {
	switch {
	case n.tree == nil || !n.isPlaced():
		return nothing
	case n.isDir():
		return aDirectory
	case n.local || n.edited:
		return uncommitted
	}
	return aMemory
}

// isPlaced reports whether n is in the tree of its store.
func (n *node) isPlaced() bool {
	for root := n.tree.root; n != root; n = n.parent {
		if n == nil {
			return false
		}
	}
	return true
}

func (t *tally) add(what tallied, number int) {
	switch what {
	case aMemory:
		t.memories += number
	case uncommitted:
		t.uncommitted += number
	}
}
