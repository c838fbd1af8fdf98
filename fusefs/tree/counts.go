package tree

// countLocked counts n as its current kind, in place of its earlier one. It follows every change
// of n's place, and of whether n differs from the log. The entries below a directory come and go
// with it.
func (n *Entry) countLocked() {
	is := n.countsAs()
	if is == n.as {
		return
	}
	n.tree.counts.add(n.as, -1)
	n.tree.counts.add(is, 1)
	n.as = is
	for _, c := range n.children {
		c.countLocked()
	}
}

// SetUnloggedLocked notes that n's head is not what the log has at its path, or that it is.
func (n *Entry) SetUnloggedLocked(unlogged bool) {
	n.unlogged = unlogged
	n.countLocked()
}

// SetEditedLocked notes whether what is being written to n differs from its head.
func (n *Entry) SetEditedLocked(edited bool) {
	n.edited = edited
	n.countLocked()
}

// countsAs is the kind as which n counts now.
func (n *Entry) countsAs() tallied {
	switch {
	case n.tree == nil || !n.isPlaced():
		return nothing
	case n.IsDir():
		return aDirectory
	case n.unlogged || n.edited:
		return uncommitted
	}
	return aMemory
}

// isPlaced reports whether n is in the tree of its store.
func (n *Entry) isPlaced() bool {
	for root := n.tree.root; n != root; n = n.parent {
		if n == nil {
			return false
		}
	}
	return true
}

func (t *Counts) add(what tallied, number int) {
	switch what {
	case aMemory:
		t.Memories += number
	case uncommitted:
		t.Uncommitted += number
	}
}
