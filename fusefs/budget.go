package fusefs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/errkind"
	"mneme/fusefs/tree"
	"mneme/memory"
)

// DefaultMaxMemory is how many bytes a mount holds at most for the programs that use
// it, unless Options say otherwise.
const DefaultMaxMemory = 256 << 20

// budget bounds the memory that a mount holds for the programs that use it. A program can make it
// hold any amount of five things. These are counted, in bytes: the stages of files that are
// written, including scratch files; open files and directories; the listings that open
// directories keep; the contents that open files keep, so that they are not fetched again; and
// directories that the program makes.
//
// A call that would make the mount hold more than its limit gets EDQUOT. Open files and
// directories, with their listings, have a separate part of the limit, so that neither part stops
// the other: whatever else is held, open things can be found and removed, and files can be saved.
// In the larger part, scratch files, directories and kept contents leave some room for files that
// are saved.
//
// Two things are not counted: the tree of the log's contents, which is as large as the stores
// are, and the memory that a request needs until it is answered.
//
// Its fields are guarded by fileSystem.mu.
type budget struct {
	limit   int64
	held    int64
	open    int64         // of it, what is open to be read
	most    int64         // that was held since memory was last returned to the system
	refused uint64        // calls
	fallen  chan struct{} // much less is held than before

	dirs map[*tree.Entry]bool // the directories that are counted
}

// purpose is what memory is wanted for.
type purpose int

const (
	forContent purpose = iota // kept for further reads
	forScratch                // scratch files, and directories of this mount only
	forSaving                 // files that become memories
	forReading                // open files and directories
	forControl                // what .mneme says
)

// sixteenths of the limit are the amounts that may be held when more is requested: for the last
// two, of the part for open files; for the others, of the other part.
var sixteenths = [...]int64{forContent: 8, forScratch: 8, forSaving: 10, forReading: 4, forControl: 5}

const (
	// The costs of a stage with its node, of a handle and of a directory are what
	// the heap was seen to grow by, rounded up.
	stageCost     = 1 << 10
	handleCost    = 512
	directoryCost = 2 << 10
	entryCost     = 64 // of a name in a listing, without its bytes

	// returnAt is how far what is held falls before memory is returned to the system.
	returnAt = 16 << 20
)

// newBudget makes the budget of a mount of stores. Whatever the limit, a memory can be
// saved: that takes its stage, a copy of it, and what was appended to it.
func newBudget(limit int64, stores []*memory.Store) budget {
	const copies = 6
	if limit == 0 {
		limit = DefaultMaxMemory
	}
	for _, ms := range stores {
		limit = max(limit, copies*ms.Info().Limits.MaxMemoryBytes)
	}
	return budget{limit: limit, fallen: make(chan struct{}, 1), dirs: map[*tree.Entry]bool{}}
}

// fits reports whether more bytes may be held.
func (b *budget) fits(more int64, why purpose) bool {
	return b.part(why)+more <= b.limit/16*sixteenths[why]
}

// part is what is held of the part of the limit that a purpose has.
func (b *budget) part(why purpose) int64 {
	if why >= forReading {
		return b.open
	}
	return b.held - b.open
}

// changeOpen is change for a file or directory that is open for reading.
func (b *budget) changeOpen(bytes int64) {
	b.open += bytes
	b.change(bytes)
}

// change counts bytes that are held from now on, or no longer.
func (b *budget) change(bytes int64) {
	b.held += bytes
	b.most = max(b.most, b.held)
	if b.most-b.held >= returnAt {
		select {
		case b.fallen <- struct{}{}:
		default:
		}
	}
}

// budgetError says that a mount holds as much as it may for that purpose.
type budgetError struct {
	held, limit int64
	why         purpose
}

func (e *budgetError) Error() string {
	of := fmt.Sprintf("%d of %d KiB", e.limit>>10*sixteenths[e.why]/16, e.limit>>10)
	what := "close files, and remove scratch files and empty directories"
	if e.why >= forReading {
		what = "close files and directories"
	}
	return fmt.Sprintf("the mount holds %d KiB for its programs of this kind, and this would be more than %s (--max-memory); %s", e.held>>10, of, what)
}

// Kind is errkind.OverQuota.
func (e *budgetError) Kind() errkind.Kind { return errkind.OverQuota }

// affordLocked says why more bytes may not be held; nil: they may.
func (fs *fileSystem) affordLocked(more int64, why purpose) error {
	if fs.budget.fits(more, why) {
		return nil
	}
	fs.budget.refused++
	return &budgetError{fs.budget.part(why), fs.budget.limit, why}
}

// tooMuch answers a request with the error of afford. All of them are one entry of
// .mneme/errors, so that they do not push others out.
func (s *store) tooMuch(op, path string, err error) fuse.Status {
	errno := errnoOf(err)
	s.errors.Add("--max-memory", fmt.Sprintf("%s %s (%v)", op, s.located(path, err), errno))
	return fuse.Status(errno)
}

// giveBack counts bytes no longer that a request has held. Caller does not hold fs.mu.
func (fs *fileSystem) giveBack(bytes *int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.budget.change(-*bytes)
}

// purposeOfLocked is what n is written for.
func (fs *fileSystem) purposeOfLocked(n *tree.Entry) purpose {
	if n.IsRemovedLocked() || n.IsUnloggedLocked() && fs.classOfLocked(n) == editorScratch {
		return forScratch
	}
	return forSaving
}

// affordOpenLocked lets a file be opened.
func (fs *fileSystem) affordOpenLocked(n *tree.Entry, flags uint32) fuse.Status {
	err := fs.affordLocked(handleCost, forReading)
	if writes(flags) {
		err = fs.affordLocked(handleCost+stageCost, fs.purposeOfLocked(n))
	}
	if err != nil {
		return storeOf(n).tooMuch("open", n.NameLocked(), err)
	}
	return fuse.OK
}

// affordStageLocked says why a stage of n may not become size bytes long, and what was appended may
// not grow by more; nil: it may.
func (fs *fileSystem) affordStageLocked(n *tree.Entry, st *stage, size, more int64) error {
	if size <= int64(cap(st.data)) && !st.appendOnly {
		return nil
	}
	return fs.affordLocked(max(0, size-int64(cap(st.data)))+more, fs.purposeOfLocked(n))
}

// tallyLocked counts n as what it is with its stage.
func tallyLocked(n *tree.Entry) { n.SetEditedLocked(stageOf(n) != nil && stageOf(n).dirty) }

// accountStageLocked counts a stage of n at its current size, and n at its size with the stage.
// It follows every change of these sizes, and the end of the stage.
func (fs *fileSystem) accountStageLocked(n *tree.Entry, st *stage) {
	tallyLocked(n)
	if st == nil {
		return
	}
	holds := int64(0)
	if st.writers > 0 || stageOf(n) == st && fs.nodes[n.ID()] == n {
		holds = st.costs()
	}
	fs.budget.change(holds - st.held)
	st.held = holds
	if holds == 0 {
		st.data = nil
		storeOf(n).session.GiveUp(&st.lost)
	}
	st.unmapUnused()
}

// costs is how many bytes a stage holds.
func (st *stage) costs() int64 {
	return stageCost + int64(cap(st.data)+cap(st.appended)) + st.attempt.bytes()
}

// accountDirLocked counts a directory that stays when it is empty, or that this mount has made:
// of others there are no more than the store has paths. It follows every change of
// that, and of whether the table has the directory.
func accountDirLocked(n *tree.Entry) {
	if storeOf(n) == nil || !n.IsDir() {
		return
	}
	fs := storeOf(n).fs
	if counts := (n.StaysLocked() || n.IsMadeHereLocked()) && fs.nodes[n.ID()] == n; counts != fs.budget.dirs[n] {
		if counts {
			fs.budget.dirs[n] = true
			fs.budget.change(directoryCost)
		} else {
			delete(fs.budget.dirs, n)
			fs.budget.change(-directoryCost)
		}
	}
}

// holdLocked keeps the bytes of n's head for further reads while it is open, if there is
// room; nil drops them.
func (fs *fileSystem) holdLocked(n *tree.Entry, content []byte) {
	if content != nil && !fs.budget.fits(int64(len(content)), forContent) {
		return
	}
	fs.budget.change(int64(len(content) - len(keptContent(n))))
	if content != nil || keptContent(n) != nil {
		ownOpenFile(n).content = content
	}
}

// changeHandleLocked counts bytes of a handle.
func (fs *fileSystem) changeHandleLocked(h *handle, bytes int64) {
	if h.stage != nil {
		fs.budget.change(bytes)
	} else {
		fs.budget.changeOpen(bytes)
	}
}

// holdListLocked counts the listing that an open directory keeps, in place of an earlier
// one; or says why it may not.
func (fs *fileSystem) holdListLocked(h *handle, list []dirEntry) error {
	costs := int64(handleCost)
	for _, e := range list {
		costs += entryCost + int64(len(e.name))
	}
	if err := fs.affordLocked(costs-h.held, forReading); err != nil {
		return err
	}
	fs.budget.changeOpen(costs - h.held)
	h.held = costs
	return nil
}
