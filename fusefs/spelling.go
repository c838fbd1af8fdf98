package fusefs

import (
	"mneme/memory"
)

// A name with accents has several spellings, which are one file: the tree and the
// log know it by its NFC. Programs compare bytes: a program that copies from a Mac
// and then removes what it finds and did not copy, is to find the names that it
// made. So a directory lists a name as it was last made, or renamed to, in this
// mount; or else as somebody first asked for it.

// spell notes how a name in dir, which is canonical in NFC, was spelled. A spelling
// is kept for names only that have more than one.
func (n *node) spell(canonical, name string) {
	if oneForm(canonical) {
		return
	}
	if n.spellings == nil {
		n.spellings = map[string]string{}
	}
	if len(name) > memory.MaxNameBytes { // of which a listing cannot tell
		name = canonical
	}
	n.spellings[canonical] = name
}

// spelled is how dir lists a name.
func (n *node) spelled(canonical string) string {
	if name, ok := n.spellings[canonical]; ok {
		return name
	}
	return canonical
}

// askedFor notes how a name that is in dir was spelled by somebody who looked it
// up. Caller holds fs.mu.
func (fs *fileSystem) askedFor(dir *node, canonical, name string) {
	if canonical == name || dir.store == nil || dir.isControl() {
		return
	}
	if _, known := dir.spellings[canonical]; known {
		return
	}
	dir.spell(canonical, name)
	dir.respelled = true
	if fs.quiet { // where the kernel opens directories by itself
		fs.notify.enqueue(notice{node: dir.id, pages: true})
	}
}
