package fusefs

import (
	"time"

	"mneme/fusefs/kernelcache"
	"mneme/session"
)

// forever is how long the kernel may keep names and attributes: until the
// notifier says otherwise.
const forever = 240 * time.Hour

// node returns the node of an id the kernel uses.
func (fs *fileSystem) node(id uint64) *node { return fs.nodes[id] }

// collectLocked drops n from the table when nobody can name it any more.
func (fs *fileSystem) collectLocked(n *node) {
	n.letGoLocked()
	if n.parent == nil && n != fs.root && n.lookups() == 0 && n.opens() == 0 {
		delete(fs.nodes, n.id)
		fs.reckonLocked(n, n.stage())
		n.reckonDirLocked()
		n.markLocked()
	}
}

// where is n's path for a message.
func (fs *fileSystem) where(n *node) string {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if path, _ := n.targetLocked(); path != "" {
		return path
	}
	return n.name
}

// inode is what the kernel has of a node, and what programs have open of it. A node has
// one while somebody has: the kernel refers to it, it is open, something is being
// written to it, or bytes of it are fetched ahead. Of 100,000 files few have one.
//
// fileSystem.mu guards its fields but cache, which says so itself.
type inode struct {
	held                    // by the node, for which this is what it holds
	cache kernelcache.Inode // what the kernel has of it
	named uint64            // number of the notice that tells of its name, if it took another's place
	file  *openFile         // nil: nobody has it open, nor is anything being written to it
	list  *[]dirEntry       // in a mount without opens: what the kernel is reading of a directory
	turn  session.Turn      // commits of the node's stages follow one another
}

// openFileLocked is a node that is open, or to which something is being written.
type openFile struct {
	opens   int    // open handles
	stage   *stage // nil while nobody writes
	content []byte // the bytes of head, once read
}

// unknown is the inode of a node that nobody has. It does not change.
var unknown = &inode{file: &openFile{}}

// had returns n's inode to be looked at. What is to be changed is that of Cache, or of ownFile.
func (n *node) had() *inode {
	if in := n.known(); in != nil {
		return in
	}
	return unknown
}

// known returns n's inode; nil: it has none.
func (n *node) known() *inode {
	if h := n.holds(); h != nil {
		return h.of.(*inode)
	}
	return nil
}

// own returns n's inode, made where there is none.
func (n *node) own() *inode {
	for {
		if in := n.known(); in != nil {
			return in
		}
		in := &inode{}
		in.of = in
		n.hold(&in.held)
	}
}

// ownFile returns n as an open file.
func (n *node) ownFile() *openFile {
	in := n.own()
	if in.file == nil {
		in.file = &openFile{}
	}
	return in.file
}

// Cache returns what the kernel has of n. It needs no lock.
func (n *node) Cache() *kernelcache.Inode { return &n.own().cache }

// cached is a node as kernelcache sees it.
type cached struct{ *node }

// Number implements kernelcache.Node.
func (c cached) Number() uint64 { return c.id }

// IsDir implements kernelcache.Node.
func (c cached) IsDir() bool { return c.node.isDir() }

// Cache implements kernelcache.Node. It needs no lock.
func (c cached) Cache() *kernelcache.Inode { return c.node.Cache() }

// lookups is how many references the kernel holds to n.
func (n *node) lookups() uint64 { return n.had().cache.Lookups }

// opens is how many handles n has.
func (n *node) opens() int { return n.file().opens }

// stage is what is being written to n; nil: nothing.
func (n *node) stage() *stage { return n.file().stage }

// content is the bytes of n's head, if they are kept; else nil.
func (n *node) content() []byte { return n.file().content }

func (n *node) file() *openFile {
	if f := n.had().file; f != nil {
		return f
	}
	return unknown.file
}

func (n *node) setStageLocked(st *stage) {
	if st != nil {
		n.ownFile().stage = st
	} else if n.stage() != nil {
		n.ownFile().stage = nil
		n.letGoLocked()
	}
}

// setNamed notes the number of the notice that tells of n's name; 0: nobody has to be told.
func (n *node) setNamed(notice uint64) {
	if notice != 0 || n.known() != nil {
		n.own().named = notice
	}
}

// letGoLocked drops what n has for nobody any more.
func (n *node) letGoLocked() {
	in := n.known()
	if in == nil {
		return
	}
	if f := in.file; f != nil && f.opens == 0 && f.stage == nil {
		if f.content != nil {
			n.store.fs.holdLocked(n, nil)
		}
		in.file = nil
	}
	if in.file == nil && in.cache.Idle() {
		n.letGo()
	}
}
