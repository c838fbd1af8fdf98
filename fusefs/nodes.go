package fusefs

import (
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mneme/fusefs/kernelcache"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// forever is how long the kernel may keep names and attributes: until the
// notifier says otherwise.
const forever = 240 * time.Hour

// node is a file or directory of the mount. Its id is its inode number, for as
// long as the mount or the kernel knows it. All fields but id and store are guarded by
// fileSystem.mu.
type node struct {
	id    uint64
	store *store // nil for the root of the mount

	parent *node  // nil for the root, and once the node has no name any more
	name   string // NFC

	mode  uint32 // type and permission bits
	mtime time.Time
	ctime time.Time

	*directory // never nil; a file's is noDirectory
	*aside     // never nil; nothingAside, until something is set

	inode atomic.Pointer[inode] // what the kernel and programs have of it, see letGoLocked; nil: nobody has anything

	tallied tallied // what the store counts it as

	// Files.
	head    *memory.Head // the content when there is no stage
	local   bool         // head, if any, is not what the log has at this path
	removed bool         // unlinked in this mount
}

// directory is what only directories have.
type directory struct {
	children   map[string]*node // by name
	hidden     map[string]*node // memories that have scratch names in this mount; see hide.go
	hiddenDirs map[string]*node // directories that were removed, and hide memories
	kept       bool             // stays when it is empty
	made       bool             // by this mount
	marker     uint64           // the commit that made it, or moved it here; 0: the log does not have it itself
	counted    bool             // the budget has it
	complete   bool             // everything in it is in the tree, see store.knows
}

// noDirectory is what a file has in it: nothing. It does not change.
var noDirectory = &directory{}

// aside is what few nodes have.
type aside struct {
	spelling     string    // how a program has spelled it here; "": none has. See spelling.go
	spelledInLog string    // how head spells its path, see versionlog.Version
	origin       *origin   // of a local file that is hidden elsewhere
	was          string    // the path it had before another session took that away
	line         *line     // that it is in; nil: it stands for itself. See succeed.go
	atime        time.Time // zero: as mtime
	mkstemp      bool      // made under a name that is to be temporary
	probe        bool      // made with O_EXCL under a name of vim's, see isProbe
}

// nothingAside is what most nodes have. It does not change.
var nothingAside = &aside{}

// setAside returns what n has aside, for a change.
func (n *node) setAside() *aside {
	if n.aside == nothingAside {
		n.aside = &aside{}
	}
	return n.aside
}

// origin is the place where a file with a scratch name is still committed.
type origin struct {
	dir  *node
	name string
}

// setHeadLocked makes a version what a reader of n gets while nothing is being written to it,
// with how it spells its path. Nothing else changes head.
func (n *node) setHeadLocked(head *memory.Head, spelling string) {
	if n.content() != nil && !memory.SameText(n.head, head) {
		n.store.fs.holdLocked(n, nil)
	}
	n.head = head
	if n.spelledInLog != spelling {
		n.setAside().spelledInLog = spelling
	}
	n.markLocked()
}

// versionLocked is what head was made of, as far as it is kept.
func (n *node) versionLocked() versionlog.Version {
	v := n.head.Version()
	v.Spelling = n.spelledInLog
	return *v
}

func (n *node) isDir() bool { return n.directory != noDirectory }

// newNode makes a node and enters it in the table.
func (fs *fileSystem) newNode(s *store, mode uint32, now time.Time) *node {
	n := &node{id: fs.nextID, store: s, mode: mode, mtime: now, ctime: now, directory: noDirectory, aside: nothingAside}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.directory = &directory{children: map[string]*node{}}
	}
	fs.nextID++
	fs.nodes[n.id] = n
	return n
}

// attachLocked gives n its name in dir. It may have lost the one that it had while the
// caller did not hold fs.mu, and be dropped from the table.
func attachLocked(dir *node, name string, n *node) {
	fs := n.store.fs
	fs.nodes[n.id] = n
	fs.reckonLocked(n, n.stage())
	n.reckonDirLocked()
	n.parent, n.name = dir, name
	n.markLocked()
	if n.succeededLocked() {
		n.setAside().line = nil
	}
	dir.children[name] = n
	n.tally()
	if old := dir.hiddenDirs[name]; old != nil && n.isDir() {
		delete(dir.hiddenDirs, name)
		n.adoptLocked(old)
	}
}

// detachLocked takes n's name away.
func (fs *fileSystem) detachLocked(n *node) {
	if n.parent != nil && n.parent.children[n.name] == n {
		delete(n.parent.children, n.name)
	}
	n.parent = nil
	n.tally()
	n.markLocked()
	fs.collectLocked(n)
}

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

// path is where n lies in its store, "" for the store's root, and false when n
// has no place there any more.
func (n *node) path() (string, bool) {
	var segments []string
	for n.store.root != n {
		if n.parent == nil {
			return "", false
		}
		segments = append(segments, n.name)
		n = n.parent
	}
	var b strings.Builder
	for i := len(segments) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(segments[i])
	}
	return b.String(), true
}

// logPath is where the log has n: its path, or the one that it is hidden from.
func (n *node) logPath() (string, bool) {
	if o := n.origin; o != nil {
		return o.dir.childPath(o.name)
	}
	return n.path()
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

// childPath is the path a child of dir has or would have.
func (n *node) childPath(name string) (string, bool) {
	dir, ok := n.path()
	return dir + "/" + name, ok
}

func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// node returns the node of an id the kernel uses.
func (fs *fileSystem) node(id uint64) *node { return fs.nodes[id] }

// inode is what the kernel has of a node, and what programs have open of it. A node has
// one while somebody has: the kernel refers to it, it is open, something is being
// written to it, or bytes of it are fetched ahead. Of 100,000 files few have one.
//
// fileSystem.mu guards its fields but cache, which says so itself.
type inode struct {
	cache kernelcache.Inode // what the kernel has of it
	named uint64            // number of the notice that tells of its name, if it took another's place
	file  *openFile         // nil: nobody has it open, nor is anything being written to it
	list  []dirEntry        // in a mount without opens: what the kernel is reading of a directory
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
	if in := n.inode.Load(); in != nil {
		return in
	}
	return unknown
}

// own returns n's inode, made where there is none.
func (n *node) own() *inode {
	for {
		if in := n.inode.Load(); in != nil {
			return in
		}
		n.inode.CompareAndSwap(nil, &inode{})
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

// Cache implements kernelcache.Node. It needs no lock.
func (n *node) Cache() *kernelcache.Inode { return &n.own().cache }

// Number and IsDir implement kernelcache.Node.
func (n *node) Number() uint64 { return n.id }
func (n *node) IsDir() bool    { return n.isDir() }

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
	if notice != 0 || n.inode.Load() != nil {
		n.own().named = notice
	}
}

// letGoLocked drops what n has for nobody any more.
func (n *node) letGoLocked() {
	in := n.inode.Load()
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
		n.inode.Store(nil)
	}
}
