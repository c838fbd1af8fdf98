package fusefs

import (
	"errors"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/text/unicode/norm"

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
	opens  int    // open handles

	cache kernelcache.Inode // what the kernel has of it

	mode  uint32 // type and permission bits
	mtime time.Time
	ctime time.Time

	*directory // never nil; a file's is noDirectory
	*aside     // never nil; nothingAside, until something is set

	tallied tallied // what the store counts it as

	// Files.
	head    *memory.Head // the content when there is no stage
	local   bool         // head, if any, is not what the log has at this path
	stage   *stage       // nil while nobody writes
	named   uint64       // number of the notice that tells of its name, if it took another's place
	content []byte       // the bytes of head, once read, while open
	removed bool         // unlinked in this mount

	entries []dirEntry // what the kernel is reading of a directory in a quiet mount

	turn session.Turn // commits of the node's stages follow one another
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

// setHead makes a version what a reader of n gets while nothing is being written to it,
// with how it spells its path. Nothing else changes head. Caller holds fs.mu.
func (n *node) setHead(head *memory.Head, spelling string) {
	if n.content != nil && !memory.SameText(n.head, head) {
		n.store.fs.hold(n, nil)
	}
	n.head = head
	if n.spelledInLog != spelling {
		n.setAside().spelledInLog = spelling
	}
	n.mark()
}

// version is what head was made of, as far as it is kept. Caller holds fs.mu.
func (n *node) version() versionlog.Version {
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

// attach gives n its name in dir. It may have lost the one that it had while the
// caller did not hold fs.mu, and be dropped from the table. Caller holds fs.mu.
func attach(dir *node, name string, n *node) {
	fs := n.store.fs
	fs.nodes[n.id] = n
	fs.reckon(n, n.stage)
	n.reckonDir()
	n.parent, n.name = dir, name
	n.mark()
	if n.succeeded() {
		n.setAside().line = nil
	}
	dir.children[name] = n
	n.tally()
	if old := dir.hiddenDirs[name]; old != nil && n.isDir() {
		delete(dir.hiddenDirs, name)
		n.adopt(old)
	}
}

// detach takes n's name away.
func (fs *fileSystem) detach(n *node) {
	if n.parent != nil && n.parent.children[n.name] == n {
		delete(n.parent.children, n.name)
	}
	n.parent = nil
	n.tally()
	n.mark()
	fs.collect(n)
}

// collect drops n from the table when nobody can name it any more.
func (fs *fileSystem) collect(n *node) {
	if n.parent == nil && n != fs.root && n.cache.Lookups == 0 && n.opens == 0 {
		delete(fs.nodes, n.id)
		fs.reckon(n, n.stage)
		n.reckonDir()
		n.mark()
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
	if path, _ := n.target(); path != "" {
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

// Lookup implements fuse.RawFileSystem.
func (fs *fileSystem) Lookup(_ <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if status, answered := fs.PromptLookup(header, name, out); answered {
		return status
	}
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err)
	}
	if status := fs.reach(header.NodeId, canonical); !status.Ok() {
		return status
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.node(header.NodeId)
	if dir == nil || !dir.isDir() {
		return fuse.Status(syscall.ESTALE)
	}
	return fs.lookup(dir, name, canonical, header.Pid, out)
}

// lookup answers a thread that looks a name up. Caller holds fs.mu.
func (fs *fileSystem) lookup(dir *node, name, canonical string, thread uint32, out *fuse.EntryOut) fuse.Status {
	n := dir.children[canonical]
	if n == nil {
		delete(fs.retries, thread) // what was to be tried again ends here
		if dir.isTooLong(canonical) {
			return fuse.Status(syscall.ENAMETOOLONG)
		}
		if canonical == name && oneForm(name) && dir.lacks(name) {
			out.SetEntryTimeout(forever)
			return fuse.OK // a negative entry, which the kernel keeps
		}
		return fuse.ENOENT
	}
	if r := fs.retries[thread]; r != nil {
		r.looked = true
	}
	fs.askedFor(dir, n, name)
	fs.reply(n, canonical == name, out)
	return fuse.OK
}

// lacks reports whether the kernel will be told when dir, which does not have a
// name, gets it. Caller holds fs.mu.
func (n *node) lacks(name string) bool {
	if n.store == nil {
		return true
	}
	path, ok := n.childPath(name)
	return ok && n.store.covers(n, path)
}

// absent answers for a name that no file can have, because of err.
func absent(err error) fuse.Status {
	if errors.Is(err, memory.ErrPathTooLong) {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	return fuse.ENOENT
}

// isTooLong reports whether the path of a name in dir is longer, or deeper, than
// that of a memory may be. Caller holds fs.mu.
func (n *node) isTooLong(name string) bool {
	if n.store == nil {
		return false
	}
	path, ok := n.childPath(name)
	return ok && errors.Is(memory.CheckPath(path), memory.ErrPathTooLong)
}

// oneForm reports whether a name in NFC is the only spelling of itself. The
// kernel takes two spellings for two names and would keep the one when the
// other is removed, so it is not to keep any.
func oneForm(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return norm.NFD.IsNormalString(name)
		}
	}
	return true
}

// reply fills out an entry for n and counts the reference that the kernel
// gets. exact says that n was asked for by the name it has.
func (fs *fileSystem) reply(n *node, exact bool, out *fuse.EntryOut) {
	if n.cache.Lookups++; n.cache.Lookups == 1 {
		n.mark()
	}
	n.cache.Looked = kernelcache.Now()
	out.NodeId = n.id
	out.Generation = 1
	if exact && oneForm(n.name) {
		out.SetEntryTimeout(forever)
	}
	out.SetAttrTimeout(n.attrTimeout())
	fs.fillAttr(n, &out.Attr)
}

// Forget implements fuse.RawFileSystem.
func (fs *fileSystem) Forget(id, count uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n := fs.node(id); n != nil {
		n.cache.Lookups -= min(count, n.cache.Lookups)
		fs.collect(n)
	}
}
