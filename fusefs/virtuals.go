package fusefs

import "mneme/fusefs/virtual"

// virtuals is what the kernel has of the files below .mneme in the stores. Except inherited, it
// is guarded by fileSystem.mu, which is not held while something is looked up or read there.
type virtuals struct {
	inodes  map[uint64]*virtualInode
	places  map[virtualPlace]*virtualInode
	handles map[uint64]*virtualHandle

	// inherited are the numbers that an earlier process gave by counting. They do not
	// change once the mount is served.
	inherited map[uint64]bool
}

func newVirtuals() virtuals {
	return virtuals{
		inodes: map[uint64]*virtualInode{}, places: map[virtualPlace]*virtualInode{}, handles: map[uint64]*virtualHandle{},
		inherited: map[uint64]bool{},
	}
}

// virtualPlace is a place in a store, of which that is the id.
type virtualPlace struct{ store, path string }

// virtualInode is a file or directory that the kernel knows, or a program has open.
type virtualInode struct {
	id      uint64
	at      virtualPlace
	node    virtual.Node // as it was when it was last looked up
	lookups uint64       // references that the kernel holds
	opens   int          // open handles
}

// virtualHandle is an open file or directory.
type virtualHandle struct {
	inode *virtualInode
	text  []byte // of a file; nil: it was opened before the mount was taken over, or forgotten since
}

// has reports whether a number is one of these. It takes no lock.
func (t *virtuals) has(id uint64) bool {
	return id>>63 != 0 || len(t.inherited) > 0 && t.inherited[id]
}

// numberLocked is the number of a place: the one by which the kernel knows it, or else
// the first that is free from the place's own on.
func (t *virtuals) numberLocked(at virtualPlace) uint64 {
	if v := t.places[at]; v != nil {
		return v.id
	}
	id := virtual.Number(at.store, at.path)
	for t.inodes[id] != nil {
		id = (id + 1) | 1<<63
	}
	return id
}

// enterLocked returns the inode of a node of a store, whose number is id if it has none
// yet.
func (t *virtuals) enterLocked(store string, n virtual.Node, id uint64) *virtualInode {
	at := virtualPlace{store, n.Path()}
	v := t.places[at]
	if v == nil {
		v = &virtualInode{id: id, at: at}
		t.inodes[id], t.places[at] = v, v
	}
	v.node = n
	return v
}

// collectLocked drops v when neither the kernel nor a handle has it any longer, and reports
// whether it did.
func (t *virtuals) collectLocked(v *virtualInode) bool {
	if v.lookups > 0 || v.opens > 0 {
		return false
	}
	delete(t.inodes, v.id)
	delete(t.places, v.at)
	return true
}
