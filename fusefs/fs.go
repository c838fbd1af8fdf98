// Package fusefs serves memory stores as a FUSE file system on Linux: a
// read-only root directory that lists the stores, and every store as a
// directory of plain files; or one store as the whole mount (Options.Flat).
//
// The names of a store are a tree.Tree, its entries the index of heads; what the
// kernel and programs have of an entry hangs on it (inode). Requests read and change
// both under one lock, which is never held during I/O. The kernel keeps names, attributes and pages without a timeout;
// what it cannot know by itself kernelcache.Notices tell it.
package fusefs

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/kernelcache"
	"mneme/fusefs/tree"
	"mneme/internal/openfiles"
	"mneme/memory"
	"mneme/note"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// Options configure a mount; the zero value is the default.
type Options struct {
	UID, GID uint32       // owner shown for every file and directory
	Mode     uint32       // permissions of directories, and of files except for execution; 0 is DefaultMode
	Session  string       // the session in whose name the stores are written; "": none
	Logger   *slog.Logger // nil discards

	// On is the directory that is mounted on, if the caller has it open, whatever its name means
	// now; only as root. Nil: it is found by its name.
	On *os.File

	// Status returns further lines for .mneme/status, "key: value" each; nil is
	// none. It is called from many goroutines and must not block.
	Status func() []string

	// Flat makes the directory of the only store the root of the mount.
	Flat bool

	// Note returns what to tell an agent about a store, whose path is where it is in the
	// mount, for .mneme/note; nil says what package note does. It must not block.
	Note func(note.Mount) string

	// Event returns a commit as a line of .mneme/events; nil writes the
	// sequence number only. It must not block.
	Event func(*versionlog.Commit) ([]byte, error)

	// Exec lets programs be executed that are files of the mount.
	Exec bool
	// BeforeServing is called when the kernel has the mount and no request is answered
	// yet, which is the last time that no thread can be waiting for one; nil is nothing.
	BeforeServing func()
	// Notifier is the command of a process that calls fusedev.RunNotifier. With it the mount
	// ends, or its keeper continues, as soon as this process is killed, whatever it was doing.
	// Nil: this process tells the kernel of changes itself, which may make a killed one stay,
	// with programs that wait for it.
	Notifier func() *exec.Cmd
	// Strict refuses to overwrite a memory that the session has never read.
	Strict bool
	// Merge merges what lost a race with what won it, by lines, where that is
	// without doubt.
	Merge bool
	// ConflictErrno is what a call gets that lost a race; 0 is DefaultConflictErrno.
	ConflictErrno syscall.Errno
	// Keeper is the process id of the keeper, which holds the mount for the next process when
	// this one is killed; 0: there is none.
	Keeper int
	// MaxMemory is how many bytes the mount holds at most for the programs that use
	// it; see budget. It is at least six times what a memory of a store may have.
	// 0 is DefaultMaxMemory.
	MaxMemory int64
	// Advise says what can be done about an error, for .mneme/errors and .mneme/status;
	// "" or a nil Advise is nothing.
	Advise func(error) string
	// Conflicts gives the place that keeps the conflicts of a store; nil keeps
	// none.
	Conflicts func(storeID string) *conflict.Store
}

// fileSystem answers the kernel's requests. The embedded default refuses requests that it does
// not implement.
type fileSystem struct {
	fuse.RawFileSystem
	opts   Options
	log    *slog.Logger
	ctx    context.Context // ends with the mount; bounds what requests wait for
	notify invalidator
	ahead  *kernelcache.Prefetcher

	allKept chan struct{} // closed when keeping each of toKeep was tried
	toKeep  []*takenText  // what was being written when the mount was taken over, and is not kept yet. Guarded by mu
	handing *handing      // notes for a process that may have to continue; nil: no process would. Guarded by mu

	since  time.Time
	noOpen bool           // no request opens anything; see noopen.go
	tasks  sync.WaitGroup // work in the background, which ends with ctx
	calls  calls

	// mu guards the node table, the tree with every node and stage, the
	// handles, and the fields of store that say so. It is taken last, after
	// store.claims and inode.turn, and never held during I/O.
	mu      sync.RWMutex
	nodes   map[uint64]*tree.Entry
	ids     *tree.IDs
	handles map[uint64]*handle
	nextFH  uint64
	virtual virtuals          // what is below .mneme
	retries map[uint32]*retry // by thread; see found
	root    *tree.Entry
	stores  []*store
	budget  budget

	returning returning // of memory, to the system

	patience patience      // with what is appended
	grown    chan struct{} // something is appended, where nothing was

	openFiles *openfiles.Scanner       // which processes have which files open
	signalled func(thread uint32) bool // whether a signal that is meant to stop the thread waits for it
}

// newFileSystem makes the tree of stores, whose heads are still to be loaded.
func newFileSystem(ctx context.Context, stores []*memory.Store, opts Options) *fileSystem {
	return newFileSystemFrom(ctx, stores, opts, fuse.FUSE_ROOT_ID+1)
}

// newFileSystemFrom is newFileSystem with nodes of that number and more.
func newFileSystemFrom(ctx context.Context, stores []*memory.Store, opts Options, nextID uint64) *fileSystem {
	if opts.ConflictErrno == 0 {
		opts.ConflictErrno = DefaultConflictErrno
	}
	opts.Mode = cmp.Or(opts.Mode, DefaultMode)
	fs := &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		opts:          opts,
		log:           cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		ctx:           ctx,
		notify:        invalidator{kernelcache.NewNotices()},
		since:         time.Now(),
		nodes:         map[uint64]*tree.Entry{},
		ids:           &tree.IDs{},
		handles:       map[uint64]*handle{},
		virtual:       newVirtuals(),
		retries:       map[uint32]*retry{},
		patience:      ordinaryPatience,
		grown:         make(chan struct{}, 1),
		allKept:       make(chan struct{}),
		openFiles:     openfiles.New(),
		budget:        newBudget(opts.MaxMemory, stores),
	}
	fs.signalled = func(thread uint32) bool { return len(fs.openFiles.Pending(thread)) > 0 }
	fs.returning = newReturning(fs)
	fs.ahead = kernelcache.NewPrefetcher(&fs.mu, source{fs}, fs.returning.memoryPassed)
	fs.noOpen = !slices.ContainsFunc(stores, func(ms *memory.Store) bool { return !ms.ReadOnly() && ms.Info().ArchivedAt.IsZero() })
	fs.root = tree.NewEntry(fuse.FUSE_ROOT_ID, syscall.S_IFDIR|fs.perm(0o777), fs.since)
	fs.nodes[fs.root.ID()] = fs.root
	fs.ids.From(nextID)
	for _, ms := range stores {
		s := newStore(fs, ms)
		fs.stores = append(fs.stores, s)
		fs.mu.Lock()
		s.tree.AttachLocked(fs.root, ms.Info().Slug, s.tree.Root())
		fs.mu.Unlock()
	}
	if opts.Flat {
		fs.flatten()
	}
	return fs
}

// flatten makes the directory of the only store the root of the mount, in that the two swap
// their numbers. The directory above it stays, and the kernel never hears of its number:
// a directory without a parent would be one that has lost its name.
func (fs *fileSystem) flatten() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	root, free := fs.stores[0].tree.Root(), fs.stores[0].tree.Root().ID()
	fs.renumberLocked(root, fuse.FUSE_ROOT_ID) // which the kernel knows without having looked it up
	fs.root.RenumberLocked(free)
	fs.nodes[free] = fs.root
}

// manyLookups is the number of references that the kernel is assumed to have to a node that was taken over:
// the mount does not know which of its answers the kernel received. Such a node stays until the mount
// ends. So does the root of a flat mount.
const manyLookups = 1 << 40

// renumberLocked gives n the number by which the kernel knows the node.
func (fs *fileSystem) renumberLocked(n *tree.Entry, id uint64) {
	delete(fs.nodes, n.ID())
	n.RenumberLocked(id)
	cacheOf(n).Lookups, cacheOf(n).Looked = manyLookups, kernelcache.Now()
	n.SetLengthToldLocked(true)
	fs.nodes[id] = n
}

// storeAt returns the store at a position in the mount; nil if the mount has none there.
func (fs *fileSystem) storeAt(i int) *store {
	if i < 0 || i >= len(fs.stores) {
		return nil
	}
	return fs.stores[i]
}

// pathOf is where a store is in the mount.
func (fs *fileSystem) pathOf(s *store) string {
	if fs.opts.Flat {
		return "."
	}
	return s.slug()
}

// String names the file system in go-fuse's own messages.
func (fs *fileSystem) String() string { return "mneme" }

// perm is what the mount's mode leaves of permissions. It takes the write bits off
// where the kernel knows that nothing can be written. Elsewhere a store that is read-only keeps them: the daemon says EROFS,
// where the kernel would say EACCES.
func (fs *fileSystem) perm(mode uint32) uint32 {
	mode &= fs.opts.Mode
	if fs.noOpen {
		return mode &^ 0o222
	}
	return mode
}

// directoryToChange returns the directory of an id for a request that changes names in it, when
// the tree shows what the log has; or why the request is refused. The commit reports a log that
// cannot be asked.
func (fs *fileSystem) directoryToChange(ctx context.Context, id uint64) (*tree.Entry, fuse.Status) {
	fs.mu.RLock()
	dir, status := fs.writableLocked(id)
	fs.mu.RUnlock()
	if !status.Ok() {
		return nil, status
	}
	if err := storeOf(dir).catchUp(ctx); err != nil && ctx.Err() != nil {
		return nil, fuse.EINTR
	}
	if storeOf(dir).readOnly() { // archived since it was mounted
		return nil, fuse.EROFS
	}
	return dir, fuse.OK
}

// writableLocked returns the node of an id for a request that changes it or, for a
// directory, what is in it; or why that is refused whatever the request is.
func (fs *fileSystem) writableLocked(id uint64) (*tree.Entry, fuse.Status) {
	n := fs.node(id)
	switch {
	case fs.virtual.has(id):
		return nil, fuse.EROFS
	case n == nil:
		return nil, fuse.Status(syscall.ESTALE)
	case storeOf(n) == nil || storeOf(n).readOnly():
		return nil, fuse.EROFS
	}
	return n, fuse.OK
}
