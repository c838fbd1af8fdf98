package fusefs

import (
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// node is a file or directory of the mount. Its id is its inode number, for as
// long as the mount or the kernel knows it. All fields but id and store are guarded by
// fileSystem.mu.
type node struct {
	id    uint64
	tree  *tree  // nil for the root of the mount
	store *store // likewise

	parent *node  // nil for the root, and once the node has no name any more
	name   string // NFC

	mode uint32 // type and permission bits
	counted
	local   bool // of a file: head, if any, is not what the log has at this path
	removed bool // by this mount, or about to be

	times

	*directory // never nil; a file's is noDirectory
	*aside     // never nil; nothingAside, until something is set

	inode atomic.Pointer[held] // what the mount has of it; nil: nobody has anything

	head *memory.Head // of a file: the content when there is no stage
}

// held is what a tree's user has of a node that somebody knows. The tree only keeps it.
type held struct{ of any }

// holds returns what is kept for the user; nil: nothing. Neither it nor hold needs the lock.
func (n *node) holds() *held { return n.inode.Load() }

// hold keeps h, unless something is kept already.
func (n *node) hold(h *held) { n.inode.CompareAndSwap(nil, h) }

// letGo keeps nothing any more.
func (n *node) letGo() { n.inode.Store(nil) }

// times are when a node has changed.
type times struct{ mtime, ctime time.Time }

// counted is what a node counts as, and the part of that which the tree does not see.
type counted struct {
	as     tallied
	edited bool // what is being written to it differs from its head
}

// directory is what only directories have.
type directory struct {
	children   map[string]*node // by name
	hidden     map[string]*node // memories that have scratch names in this mount; see hide.go
	hiddenDirs map[string]*node // directories that were removed, and hide memories
	kept       bool             // stays when it is empty
	made       bool             // by this mount
	marker     uint64           // the commit that made it, or moved it here; 0: the log does not have it itself
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
	other := !memory.SameText(n.head, head)
	n.head = head
	if n.spelledInLog != spelling {
		n.setAside().spelledInLog = spelling
	}
	if other {
		n.tree.told.ContentLocked(n)
	}
	n.changedLocked()
}

// versionLocked is what head was made of, as far as it is kept.
func (n *node) versionLocked() versionlog.Version {
	v := n.head.Version()
	v.Spelling = n.spelledInLog
	return *v
}

func (n *node) isDir() bool { return n.directory != noDirectory }

// newEntry makes the node of a number, which is in no tree: the directory above some.
func newEntry(id uint64, mode uint32, now time.Time) *node {
	n := &node{id: id, mode: mode, times: times{now, now}, directory: noDirectory, aside: nothingAside}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.directory = &directory{children: map[string]*node{}}
	}
	return n
}

// newNode makes a node that has no name yet.
func (t *tree) newNode(mode uint32, now time.Time) *node {
	n := newEntry(t.ids.next(), mode, now)
	n.tree, n.store = t, t.owner
	return n
}

// attachLocked gives n its name in dir. It may have lost the one that it had while the
// caller did not hold the lock.
func (t *tree) attachLocked(dir *node, name string, n *node) {
	n.parent, n.name = dir, name
	if n.succeededLocked() {
		n.setAside().line = nil
	}
	dir.children[name] = n
	n.count()
	if old := dir.hiddenDirs[name]; old != nil && n.isDir() {
		delete(dir.hiddenDirs, name)
		n.adoptLocked(old)
	}
	t.told.PlacedLocked(n)
}

// detachLocked takes n's name away.
func (t *tree) detachLocked(n *node) {
	if n.parent != nil && n.parent.children[n.name] == n {
		delete(n.parent.children, n.name)
	}
	n.parent = nil
	n.count()
	t.told.PlacedLocked(n)
}

// changedLocked tells that something about n has changed.
func (n *node) changedLocked() {
	if n.tree != nil {
		n.tree.told.ChangedLocked(n)
	}
}

// path is where n lies in its store, "" for the store's root, and false when n
// has no place there any more.
func (n *node) path() (string, bool) {
	if n.head != nil && n.isAt(n.head.Path()) { // as a rule
		return n.head.Path(), true
	}
	var segments []string
	size := 0
	for n.tree.root != n {
		if n.parent == nil {
			return "", false
		}
		segments = append(segments, n.name)
		size += len("/") + len(n.name)
		n = n.parent
	}
	var b strings.Builder
	b.Grow(size)
	for i := len(segments) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(segments[i])
	}
	return b.String(), true
}

// isAt reports whether n lies at a path.
func (n *node) isAt(path string) bool {
	for ; n != n.tree.root; n = n.parent {
		dir, isName := strings.CutSuffix(path, n.name)
		if n.parent == nil || !isName || !strings.HasSuffix(dir, "/") {
			return false
		}
		path = dir[:len(dir)-1]
	}
	return path == ""
}

// logPath is where the log has n: its path, or the one that it is hidden from.
func (n *node) logPath() (string, bool) {
	if o := n.origin; o != nil {
		return o.dir.childPath(o.name)
	}
	return n.path()
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

// knownAtLocked is the path of which the session knows what stands for n: the one that the
// log has, or where n is in this mount, or was.
func (n *node) knownAtLocked() string {
	m := n.nowLocked()
	if m.isInLog() {
		return m.head.Path()
	}
	if path, ok := m.path(); ok {
		return path
	}
	return m.was
}

// knownByItselfLocked reports whether the log does not have n, and does not have
// anything at its path either that this mount hides.
func (n *node) knownByItselfLocked() bool {
	return n.hasName() && n.isMountOnly() && n.parent.hidden[n.name] == nil
}

// setMadeUp notes that a file was made under a name that is to be temporary, or to find out
// whether files can be made.
func (n *node) setMadeUp(mkstemp, probe bool) {
	if mkstemp || probe {
		a := n.setAside()
		a.mkstemp, a.probe = mkstemp, probe
	}
}

// setRemoved says that a directory is about to be removed, so that nothing is made in it, or
// that it is not after all.
func (n *node) setRemoved(removed bool) { n.removed = removed }

func (n *node) setMode(mode uint32)   { n.mode = mode }
func (n *node) setMTime(at time.Time) { n.mtime = at }
func (n *node) setCTime(at time.Time) { n.ctime = at }
func (n *node) setTimes(at time.Time) { n.mtime, n.ctime = at, at }
func (n *node) setATime(at time.Time) { n.setAside().atime = at }

// touchLocked notes that n has changed, in what it lists or holds. By its mtime the
// kernel tells whether what it has cached is still so, so that no two are equal.
func (n *node) touchLocked(at time.Time) {
	if !at.After(n.mtime) {
		at = n.mtime.Add(1)
	}
	n.mtime, n.ctime = at, at
	n.changedLocked()
}

// noteWasLocked notes the paths of n and all below it, for those who write there.
func (n *node) noteWasLocked() {
	if path, ok := n.path(); ok {
		n.setAside().was = path
	}
	for _, c := range n.children {
		c.noteWasLocked()
	}
	for _, d := range n.hiddenDirs {
		d.noteWasLocked()
	}
}
