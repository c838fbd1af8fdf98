package fusefs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"mneme/memory"
	"mneme/versionlog"
)

// tree is the names of one store: what the log has at each path, as far as it has come, and
// what this mount has made that the log does not have. Methods named …Locked need the
// mount's lock; the others take it. It is never held while the log is asked.
type tree struct {
	mu      *sync.RWMutex // the mount's
	store   *memory.Store
	owner   *store
	ids     *ids
	session treeSession
	told    treeTold
	opts    treeOptions
	log     *slog.Logger
	life    context.Context // of what is read for several requests at once: the mount's
	begin   func(task func())

	// Guarded by mu.
	root          *node
	applied       uint64            // every commit up to here is in the tree
	appliedDigest versionlog.Digest // of that commit
	followed      chan struct{}     // closed, and nil, when applied grows; see awaitApplied
	gone          map[string]uint64 // paths freed: by this mount above applied; while heads load, by all
	emptied       map[string]uint64 // directories that were removed, and hide nothing any more, with their markers; see emptiedLocked
	loading       loading
	tally         tally
	flights       singleflight.Group // what requests read from the log while heads load

	hasEmptied atomic.Bool // emptied is not empty
}

// treeOptions are what a tree asks.
type treeOptions struct {
	Logger *slog.Logger
	// FileMode and DirMode are the type and permissions of what the log tells of.
	FileMode func(v *versionlog.Version) uint32
	DirMode  func(path string) uint32
	Begin    func(task func()) // begins work in the background, which ends with the tree's life
	RootMode uint32            // type and permissions of the root
	Since    time.Time         // when the root was made
}

// treeTold is told what changes, by a tree, for those who know its nodes: the kernel, open files,
// the notes for a process that goes on with the mount. Its methods are called with the lock held,
// after the change, but for Superseding; they do not wait.
type treeTold interface {
	// NameLocked says that a name of a directory means something else now: n, if that is not nil.
	NameLocked(dir *node, name string, n *node)
	// ListingLocked says that a name of a directory is spelled otherwise in its listing.
	ListingLocked(dir *node)
	AttributesLocked(n *node)
	// ContentLocked says that n's head has other bytes than it had.
	ContentLocked(n *node)
	// SupersedingLocked asks, before head takes n's place or, if nobody uses n, becomes its head,
	// whether anybody uses it. A scratch file that nobody has open is not used: its text is kept as
	// a conflict. length is how long the kernel took the file to be; below 0: it has not looked.
	SupersedingLocked(n *node, head *memory.Head) (used bool, length int64)
	// RenamedLocked says that a rename by this session made n's head of the version parent.
	RenamedLocked(n *node, parent string)
	// PlacedLocked says that n has got its place, has lost it, or stays or not when it is empty.
	PlacedLocked(n *node)
	// ChangedLocked says that something else about n has changed.
	ChangedLocked(n *node)
}

// treeSession is what a tree tells the session whose mount it is, and asks of it.
type treeSession interface {
	// Made reports whether a version is of this session.
	Made(v *versionlog.Version) bool
	// Came and Left say that the mount has a file at a path from now on, or no longer.
	Came(path string)
	Left(path string)
	// Followed says that another session has moved a memory, which the tree had. free: there was
	// nothing at to. Moved says that this session has, of which the log knows nothing.
	Followed(from, to string, free bool)
	Moved(from, to string)
	// Seen says how long the kernel took the file at a path to be, whose content has changed.
	Seen(path string, length int64)
}

// ids gives inode numbers that are never used again in a mount. Safe for many goroutines.
type ids struct{ newest atomic.Uint64 }

// next returns the next number.
func (i *ids) next() uint64 { return i.newest.Add(1) }

// peek returns the number that next will return.
func (i *ids) peek() uint64 { return i.newest.Load() + 1 }

// from makes the next number that one.
func (i *ids) from(number uint64) { i.newest.Store(number - 1) }

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

// origin is the place where a file with a scratch name is still committed.
type origin struct {
	dir  *node
	name string
}

// loading is what a store knows of its heads. Guarded by fileSystem.mu.
type loading struct {
	done     bool            // all are in the tree; the rest is empty
	cursor   string          // the walk has come to this path
	asked    map[string]bool // names the log was asked for
	doubtful map[*node]bool  // directories that look empty, but there may be more in them
	err      error           // why the walk has come to a halt
}

// tally is how many files a tree has. It is kept as they come, go and change
// (node.count), so that nobody has to walk the tree to know. Guarded by its lock.
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

// line is the nodes that have followed one another in one place, of which those
// before the last are here for whoever has them open.
type line struct{ last *node }
