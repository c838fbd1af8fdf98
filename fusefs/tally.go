package fusefs

// tally is how many files a store has in the tree. It is kept as they come, go and
// change (node.tally), so that nobody has to walk the tree to know. Guarded by
// fileSystem.mu.
type tally struct {
	memories    int
	uncommitted int // files that differ from the log
}

// tallied is what a node counts as.
type tallied uint8

const (
	nothing     tallied = iota // it is not in the tree
	aDirectory                 // which is not counted
	aMemory                    // a file that is as the log has it
	uncommitted                // a file that is not
)

// tally counts n as what it is by now, in place of what it was. It follows every change
// of its place, and of whether it differs from the log. What is below a directory comes
// and goes with it.
func (n *node) tally() {
	is := n.countsAs()
	if is == n.tallied {
		return
	}
	n.store.tally.add(n.tallied, -1)
	n.store.tally.add(is, 1)
	n.tallied = is
	for _, c := range n.children {
		c.tally()
	}
}

// setLocal notes that n's head is not what the log has at its path, or that it is.
func (n *node) setLocal(local bool) {
	n.local = local
	n.tally()
}

// countsAs is what n is by now.
func (n *node) countsAs() tallied {
	switch {
	case n.store == nil || !n.isPlaced():
		return nothing
	case n.isDir():
		return aDirectory
	case n.local || n.stage() != nil && n.stage().dirty:
		return uncommitted
	}
	return aMemory
}

// isPlaced reports whether n is in the tree of its store.
func (n *node) isPlaced() bool {
	for root := n.store.root; n != root; n = n.parent {
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
