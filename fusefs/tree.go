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

// newTree returns a tree that has yet to load.
func newTree(life context.Context, mu *sync.RWMutex, store *memory.Store, numbers *ids, session treeSession, told treeTold, owner *store, opts *treeOptions) *tree {
	t := &tree{
		mu: mu, store: store, ids: numbers, session: session, told: told, owner: owner, opts: *opts, log: opts.Logger, life: life, begin: opts.Begin,
		gone: map[string]uint64{}, emptied: map[string]uint64{},
		loading: loading{asked: map[string]bool{}, doubtful: map[*node]bool{}},
	}
	t.root = t.newNode(opts.RootMode, opts.Since)
	return t
}

// ids gives inode numbers that are never used again in a mount. Safe for many goroutines.
type ids struct{ newest atomic.Uint64 }

// next returns the next number.
func (i *ids) next() uint64 { return i.newest.Add(1) }

// peek returns the number that next will return.
func (i *ids) peek() uint64 { return i.newest.Load() + 1 }

// from makes the next number that one.
func (i *ids) from(number uint64) { i.newest.Store(number - 1) }
