// Package tree has the names of one memory store: what the log has at each path, as far as it has
// come, and what a mount has made that the log does not have. It loads while it is in use, answers
// on demand, is shown what the log gets, and keeps what was replaced for programs that have it open.
//
// It knows nothing of FUSE: its user gives it an Invalidator, which passes changes on to the
// kernel, and the session whose mount it is.
package tree

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

// Tree is the names of one store. Methods named …Locked need the lock that it was made with, the
// mount's; the others take it. The lock is never held while the log is asked.
//
// # The life of a path
//
// A path of the store is, to the tree, in one of these states:
//
//	unknown      the heads load, and nothing has told yet what is there
//	right about  a head is there, or nothing is, and the tree knows that
//
// It becomes known in one of four ways: the walk that loads all heads comes by; a request needs it
// and asks the log (Ensure); another session's commit is applied (ApplyLocked); a commit of this
// session is brought in. From then on the tree stays right about it, by what is applied, and by T1.
//
// An existing file is an Entry, and its kind, which says what it is to the log (kind.go), changes
// like this:
//
//	 made by a program          told by the log
//	        │                          │
//	        ▼        committed         ▼
//	   mount-only ─────────────────► memory ◄────────────┐
//	        ▲                       │  │ │ renamed to a  │ renamed back
//	        │        its memory     │  │ │ scratch name  ▼
//	        └────────is gone ───────┼──┼─┼──────────── hidden
//	                                │  │ │
//	another session has written     │  │ └ this mount removes it: removed
//	it, and the entry is in         │  │
//	use: superseded ────────────────┘  └ another session removes or moves it: lost
//
// An entry that is superseded, lost or removed no longer has a name; it ends with the last
// program that knows it. A write to a lost file may make the memory again.
//
// A directory exists because of the entries in it, because the log has it itself (its marker is
// the commit that made it), or because this mount has made or emptied it (it stays). One that is
// removed while memories are hidden in it is hidden, too, until the last of them is gone.
//
// # Invariants
//
//	T1 newest wins     A head is replaced only by one of a higher sequence number. A path that was
//	                   freed remembers the number that freed it as long as heads load; later, while
//	                   the follower has not come so far.
//	T2 right about     The tree says that a path is empty only where it is right about
//	                   it (RightAboutLocked), and the kernel keeps it only there.
//	T3 own commits     A commit of this session is brought in by the request that makes it, before
//	                   it may be applied, or if its reply was lost, when it is applied.
//	T4 used entries    An entry in use keeps its version: another session's is another
//	                   entry, its successor. Only one that is not in use gets another head in place.
//	T5 no loose ends   An entry with a name is found by it. An entry that the log does not have has
//	                   an owner: a name, a handle, or what is being written to it.
//	T6 told after      The Invalidator is told after the change, in the order of changes, under the
//	                   lock.
//	T7 pruned if known A directory goes with what was in it only when the tree knows that nothing
//	                   is left; else it asks first (doubtful).
//
// # What was tried before
//
// Loading everything before the mount is ready: ten thousand memories took seconds on a far store.
// One inode for a path, whatever its version: the kernel cuts what it reads at the size that it
// knows and keeps it page by page, so that a reader got bytes of two versions. Hiding by a rename in
// the log: two versions for each save of an editor. Counting files by a walk: under the lock it took
// as long as a listing of the whole store.
type Tree struct {
	mu      *sync.RWMutex // the mount's
	store   *memory.Store
	owner   any
	ids     *IDs
	session Session
	told    Invalidator
	opts    Options
	log     *slog.Logger
	life    context.Context // of reads that several requests share: the mount's
	begin   func(task func())

	// Guarded by mu.
	root          *Entry
	applied       uint64            // every commit up to here is in the tree
	appliedDigest versionlog.Digest // of that commit
	followed      chan struct{}     // closed, and nil, when applied grows; see AwaitApplied
	freed         map[string]uint64 // paths freed: by this mount above applied; while heads load, by all; and ids of memories of which a later version was erased
	emptied       map[string]uint64 // directories that were removed, and no longer hide anything, with their markers; see EmptiedLocked
	loading       loading
	counts        Counts
	flights       singleflight.Group // what requests read from the log while heads load

	hasEmptied atomic.Bool // emptied is not empty
}

// Options are what a tree is part of; all but Owner are needed.
type Options struct {
	IDs     *IDs
	Session Session
	Told    Invalidator
	Owner   any // what the tree belongs to: it does not look at it
	Logger  *slog.Logger
	// FileMode and DirMode are the type and permissions of the files and directories that the log
	// has.
	FileMode func(v *versionlog.Version) uint32
	DirMode  func(path string) uint32
	Begin    func(task func()) // begins work in the background, which ends with the tree's life
	RootMode uint32            // type and permissions of the root
	Since    time.Time         // when the root was made
}

// Invalidator is told of changes by a tree, for the users of its entries: the kernel, open files,
// the notes for a process that continues the mount. Its methods are called with the lock held,
// after the change, except Superseding; they do not wait.
type Invalidator interface {
	// NameLocked says that a name of a directory means something else now: n, if that is not nil.
	NameLocked(dir *Entry, name string, n *Entry)
	// ListingLocked says that a name of a directory is spelled otherwise in its listing.
	ListingLocked(dir *Entry)
	AttributesLocked(n *Entry)
	// ContentLocked says that n's head has other bytes than it had.
	ContentLocked(n *Entry)
	// SupersedingLocked asks, before head takes n's place or, if n is not in use, becomes its
	// head, whether n is in use. A scratch file that no program has open is not in use: its text
	// is kept as a conflict. length is how long programs took the file to be; below 0: none has
	// looked.
	SupersedingLocked(n *Entry, head *memory.Head) (used bool, length int64)
	// RenamedLocked says that a rename by this session made n's head of the version parent.
	RenamedLocked(n *Entry, parent string)
	// PlacedLocked says that n has got its place, has lost it, or stays or not when it is empty.
	PlacedLocked(n *Entry)
	// ChangedLocked says that something else about n has changed.
	ChangedLocked(n *Entry)
}

// Session is what a tree tells the session whose mount it is, and asks of it.
type Session interface {
	// Made reports whether a version is of this session.
	Made(v *versionlog.Version) bool
	// Came and Went say that the mount has a file at a path from now on, or no longer.
	Came(path string)
	Went(path string)
	// Followed says that another session has moved a memory, which the tree had. free: there was
	// nothing at to. Moved says that this session has, of which the log knows nothing.
	Followed(from, to string, free bool)
	Moved(from, to string)
	// Seen says how long programs took the file at a path to be, whose content has changed.
	Seen(path string, length int64)
}

// IDs gives inode numbers that are never used again in a mount. Safe for many goroutines.
type IDs struct{ newest atomic.Uint64 }

// next returns the next number.
func (i *IDs) next() uint64 { return i.newest.Add(1) }

// Peek returns the number that next will return.
func (i *IDs) Peek() uint64 { return i.newest.Load() + 1 }

// From makes the next number that one.
func (i *IDs) From(number uint64) { i.newest.Store(number - 1) }

// Entry is a file or directory of the mount. Its id is its inode number, for as
// long as the mount or the kernel knows it. All fields but id, tree and isDir are
// guarded by the tree's lock.
type Entry struct {
	id   uint64
	tree *Tree // nil for the root of the mount

	parent *Entry // nil for the root, and once the entry no longer has a name
	name   string // NFC

	mode  uint16 // type and permission bits
	isDir bool
	counted
	state

	times

	*aside // never nil; nothingAside, until something is set

	inode atomic.Pointer[Inode] // the mount's record of it; nil: there is none

	head *memory.Head // of a file: the content when there is no stage
}

// Inode is the record that a tree's user has of an entry that is known to the kernel or a
// program. The tree only keeps it.
type Inode struct{ Of any }

// state is what an entry has come to.
type state struct {
	unlogged   bool // of a file: head, if any, is not what the log has at this path
	removed    bool // by this mount, or about to be
	lengthTold bool // a program may have been told how long head is, also if the kernel has forgotten the file since
}

// times are when an entry has changed.
type times struct{ mtime, ctime stamp }

// counted is what an entry counts as, and the part of that which the tree does not see.
type counted struct {
	as     tallied
	edited bool // what is being written to it differs from its head
}

// directory is what only directories have.
type directory struct {
	children   map[string]*Entry // by name
	hidden     map[string]*Entry // memories that have scratch names in this mount; see hidden.go
	hiddenDirs map[string]*Entry // directories that were removed, and hide memories
	stays      bool              // stays when it is empty
	made       bool              // by this mount
	marker     uint64            // the commit that made it, or moved it here; 0: the log does not have it itself
	markerOf   string            // the id that the log has of the directory as of marker; "": not known
	complete   bool              // everything in it is in the tree, see AllOfLocked
}

// aside is what few entries have: directories, and some files.
type aside struct {
	directory
	spelling     string    // how a program has spelled it here; "": none has. See spelling.go
	spelledInLog string    // how head spells its path, see versionlog.Version
	origin       *origin   // of a local file that is hidden elsewhere
	lastPath     string    // the path it had before another session took that away
	line         *line     // that it is in; nil: it stands for itself. See successor.go
	atime        time.Time // zero: as mtime
	mkstemp      bool      // made under a name that is meant to be temporary
	probe        bool      // made with O_EXCL to find out whether files can be made
	modeChosen   bool      // by a call after it was made
}

// origin is the place where a file with a scratch name is still committed.
type origin struct {
	dir  *Entry
	name string
}

// loading is what a tree knows of its heads. Guarded by the tree's lock.
type loading struct {
	done     bool            // all are in the tree; the rest is empty
	cursor   string          // the walk has come to this path
	asked    map[string]bool // names the log was asked for
	doubtful map[*Entry]bool // directories that look empty, but there may be more in them
	err      error           // why the walk has come to a halt
}

// Counts is how many files a tree has. It is kept as they come, go and change (countLocked), so
// that counting needs no walk of the tree. Guarded by its lock.
type Counts struct {
	Memories    int
	Uncommitted int // files that differ from the log
}

// tallied is what an entry counts as.
type tallied uint8

const (
	nothing     tallied = iota // it is not in the tree
	aDirectory                 // which is not counted
	aMemory                    // a file that is as the log has it
	uncommitted                // a file that is not
)

// line is the entries that have followed one another in one place. All but the last stay only for
// the programs that have them open.
type line struct{ last *Entry }
