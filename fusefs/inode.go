package fusefs

import (
	"time"

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
	"mneme/session"
)

// forever is how long the kernel may keep names and attributes: until the
// notifier says otherwise.
const forever = 240 * time.Hour

// storeOf returns the store that n is in; nil: n is the root of the mount, above them.
func storeOf(n *tree.Entry) *store {
	if t := n.Tree(); t != nil {
		return t.Owner().(*store)
	}
	return nil
}

// node returns the entry of an id the kernel uses.
func (fs *fileSystem) node(id uint64) *tree.Entry { return fs.nodes[id] }

// collectLocked drops n from the table when no request can name it any longer.
func (fs *fileSystem) collectLocked(n *tree.Entry) {
	letGoLocked(n)
	if n.ParentLocked() == nil && n != fs.root && lookupsOf(n) == 0 && opensOf(n) == 0 {
		delete(fs.nodes, n.ID())
		fs.accountStageLocked(n, stageOf(n))
		accountDirLocked(n)
		markLocked(n)
	}
}

// where is n's path for a message.
func (fs *fileSystem) where(n *tree.Entry) string {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if path, _ := n.TargetLocked(); path != "" {
		return path
	}
	return n.NameLocked()
}

// inode is what the kernel has of a node, and what programs have open of it. A node has one while
// it is in use: the kernel refers to it, it is open, something is being written to it, or bytes
// of it are fetched ahead. Few of 100,000 files have one.
//
// fileSystem.mu guards its fields except cache, which says so itself.
type inode struct {
	tree.Inode                   // by the node, for which this is what it holds
	cache      kernelcache.Inode // what the kernel has of it
	file       *openFile         // nil: no program has it open, nor is anything being written to it
	turn       session.Turn      // commits of the node's stages follow one another
}

// openFile is a node that is open, or to which something is being written. In a mount without opens
// it is a directory that the kernel is reading.
type openFile struct {
	opens   int         // open handles
	stage   *stage      // nil while no program writes
	content []byte      // the bytes of head, once read
	list    *[]dirEntry // in a mount without opens: what the kernel is reading of the directory
}

// unknown is the inode of a node that is not in use. It does not change.
var unknown = &inode{file: &openFile{}}

// inodeOf returns n's inode for reading. A caller that changes an inode uses that of Cache, or of
// ownFile.
func inodeOf(n *tree.Entry) *inode {
	if in := inodeOrNil(n); in != nil {
		return in
	}
	return unknown
}

// inodeOrNil returns n's inode; nil: it has none.
func inodeOrNil(n *tree.Entry) *inode {
	if h := n.Inode(); h != nil {
		return h.Of.(*inode)
	}
	return nil
}

// ownInode returns n's inode, made where there is none.
func ownInode(n *tree.Entry) *inode {
	for {
		if in := inodeOrNil(n); in != nil {
			return in
		}
		in := &inode{}
		in.Of = in
		n.KeepInode(&in.Inode)
	}
}

// ownOpenFile returns n as an open file.
func ownOpenFile(n *tree.Entry) *openFile {
	in := ownInode(n)
	if in.file == nil {
		in.file = &openFile{}
	}
	return in.file
}

// cacheOf returns what the kernel has of n. It needs no lock.
func cacheOf(n *tree.Entry) *kernelcache.Inode { return &ownInode(n).cache }

// cached is a node as kernelcache sees it.
type cached struct{ *tree.Entry }

// Number implements kernelcache.Node.
func (c cached) Number() uint64 { return c.ID() }

// IsDir implements kernelcache.Node.
func (c cached) IsDir() bool { return c.Entry.IsDir() }

// Cache implements kernelcache.Node. It needs no lock.
func (c cached) Cache() *kernelcache.Inode { return cacheOf(c.Entry) }

// lookupsOf is how many references the kernel holds to n.
func lookupsOf(n *tree.Entry) uint64 { return inodeOf(n).cache.Lookups }

// opensOf is how many handles n has.
func opensOf(n *tree.Entry) int { return openFileOf(n).opens }

// stageOf is what is being written to n; nil: nothing.
func stageOf(n *tree.Entry) *stage { return openFileOf(n).stage }

// keptContent is the bytes of n's head, if they are kept; else nil.
func keptContent(n *tree.Entry) []byte { return openFileOf(n).content }

func openFileOf(n *tree.Entry) *openFile {
	if f := inodeOf(n).file; f != nil {
		return f
	}
	return unknown.file
}

func setStageLocked(n *tree.Entry, st *stage) {
	if st != nil {
		ownOpenFile(n).stage = st
	} else if stageOf(n) != nil {
		ownOpenFile(n).stage = nil
		letGoLocked(n)
	}
}

// setNameNotice notes the number of the notice that tells of n's name; 0: the kernel need not be
// told.
func setNameNotice(n *tree.Entry, notice uint64) {
	if notice != 0 || inodeOrNil(n) != nil {
		cacheOf(n).SetNameNotice(notice)
	}
}

// letGoLocked drops everything that n has and that nothing uses any longer.
func letGoLocked(n *tree.Entry) {
	closedLocked(n)
	if in := inodeOrNil(n); in != nil && in.file == nil && in.cache.Idle() {
		n.DropInode()
	}
}

// closedLocked drops what n has as an open file, unless it is one still.
func closedLocked(n *tree.Entry) {
	in := inodeOrNil(n)
	if in == nil || in.file == nil || in.file.opens > 0 || in.file.stage != nil {
		return
	}
	if in.file.content != nil {
		storeOf(n).fs.holdLocked(n, nil)
	}
	in.file = nil
}
