package fusefs

import (
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/memory"
)

// DefaultMaxMemory is how many bytes a mount holds at most for the programs that use
// it, unless Options say otherwise.
const DefaultMaxMemory = 256 << 20

// budget bounds the memory that a mount holds for the programs that use it. A program
// can make it hold as much as it likes of five things, and these are counted, in bytes:
// the stages of files that are written, scratch files among them; open files and
// directories; the listings that open directories keep; the contents that open files
// keep, so that they are not fetched again; and directories in which no memory lies.
//
// A call that would make the mount hold more than its limit gets EDQUOT. What remains of
// the limit is kept for what matters more: a content is kept, a scratch file grows and a
// directory is made while less than half of the limit is held; files and directories are
// opened for reading up to three quarters, so that what fills the half can be found and
// removed; the rest is for files that are saved.
//
// Not counted are the tree of what the log has, which is as large as the stores are, and
// what a request needs until it is answered.
//
// Its fields are guarded by fileSystem.mu.
type budget struct {
	limit   int64
	held    int64
	most    int64         // that was held since memory was last returned to the system
	refused uint64        // calls
	fallen  chan struct{} // much less is held than before
}

// purpose is what memory is wanted for.
type purpose int

const (
	forContent purpose = iota // kept for further reads
	forScratch                // scratch files, and directories of this mount only
	forReading                // open files and directories
	forSaving                 // files that become memories, and what .mneme says
)

// quarters of the limit are what may be held when more is wanted.
var quarters = [...]int64{forContent: 2, forScratch: 2, forReading: 3, forSaving: 4}

const (
	// The costs of a stage with its node, of a handle and of a directory are what
	// the heap was seen to grow by, rounded up.
	stageCost     = 1 << 10
	handleCost    = 512
	directoryCost = 1 << 10
	entryCost     = 64 // of a name in a listing, without its bytes

	// returnAt is how far what is held falls before memory is returned to the system,
	// which takes a whole garbage collection.
	returnAt = 16 << 20
	// returnEvery is how often that is done at most.
	returnEvery = 2 * time.Second
)

// newBudget makes the budget of a mount of stores. Whatever the limit, a memory can be
// saved: that takes its stage, a copy of it, and what was appended to it.
func newBudget(limit int64, stores []*memory.Store) budget {
	const copies = 4
	if limit == 0 {
		limit = DefaultMaxMemory
	}
	for _, ms := range stores {
		limit = max(limit, copies*ms.Info().Limits.MaxMemoryBytes)
	}
	return budget{limit: limit, fallen: make(chan struct{}, 1)}
}

// fits reports whether more bytes may be held.
func (b *budget) fits(more int64, why purpose) bool {
	return b.held+more <= b.limit/4*quarters[why]
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
	of := fmt.Sprintf("%d KiB", e.limit>>10)
	if e.why != forSaving {
		of = fmt.Sprintf("%s of %s", [...]string{forScratch: "half", forReading: "three quarters"}[e.why], of)
	}
	return fmt.Sprintf("the mount holds %d KiB for its programs, and this would be more than %s (--max-memory); close files, and remove scratch files and empty directories",
		e.held>>10, of)
}

// Unwrap makes it EDQUOT.
func (e *budgetError) Unwrap() error { return syscall.EDQUOT }

// afford says why more bytes may not be held; nil: they may. Caller holds fs.mu.
func (fs *fileSystem) afford(more int64, why purpose) error {
	if fs.budget.fits(more, why) {
		return nil
	}
	fs.budget.refused++
	return &budgetError{fs.budget.held, fs.budget.limit, why}
}

// tooMuch answers a request with the error of afford. All of them are one entry of
// .mneme/errors, so that they do not push others out.
func (s *store) tooMuch(op, path string, err error) fuse.Status {
	errno := errnoOf(err)
	s.errors.add("--max-memory", fmt.Sprintf("%s %s (%v)", op, s.located(path, err), errno))
	return fuse.Status(errno)
}

// holdCopy counts the bytes of a draft, if there is one, in place of those of an earlier
// one. Caller holds fs.mu.
func (fs *fileSystem) holdCopy(d *draft, copied *int64) {
	if d != nil {
		fs.budget.change(int64(len(d.data)) - *copied)
		*copied = int64(len(d.data))
	}
}

// giveBack counts bytes no longer that a request has held. Caller does not hold fs.mu.
func (fs *fileSystem) giveBack(bytes *int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.budget.change(-*bytes)
}

// purposeOf is what n is written for. Caller holds fs.mu.
func (fs *fileSystem) purposeOf(n *node) purpose {
	if n.local && fs.classOf(n) == editorScratch {
		return forScratch
	}
	return forSaving
}

// affordOpen lets a file be opened. Caller holds fs.mu.
func (fs *fileSystem) affordOpen(n *node, flags uint32) fuse.Status {
	more, why := int64(handleCost), forReading
	if writes(flags) {
		more, why = more+stageCost, fs.purposeOf(n)
	}
	if err := fs.afford(more, why); err != nil {
		return n.store.tooMuch("open", n.name, err)
	}
	return fuse.OK
}

// affordStage says why a stage of n may not become size bytes long, and its tail may
// not grow by more; nil: it may. Caller holds fs.mu.
func (fs *fileSystem) affordStage(n *node, st *stage, size, more int64) error {
	if size <= int64(cap(st.data)) && !st.tails {
		return nil
	}
	return fs.afford(max(0, size-int64(cap(st.data)))+more, fs.purposeOf(n))
}

// reckon counts a stage of n as what it holds by now. It follows every change of that,
// and the end of the stage. Caller holds fs.mu.
func (fs *fileSystem) reckon(n *node, st *stage) {
	if st == nil {
		return
	}
	holds := int64(0)
	if st.writers > 0 || n.stage == st && fs.nodes[n.id] == n {
		holds = stageCost + int64(cap(st.data)+cap(st.tail))
	}
	fs.budget.change(holds - st.held)
	st.held = holds
	if holds == 0 {
		st.data = nil
	}
	st.unmapUnused()
}

// keep lets a directory stay when it is empty, or not. Caller holds fs.mu.
func (n *node) keep(kept bool) {
	n.kept = kept
	n.reckonDir()
}

// reckonDir counts a directory that stays when it is empty. It follows every change of
// that, and of whether the table has the directory. Caller holds fs.mu.
func (n *node) reckonDir() {
	if n.store == nil {
		return
	}
	fs := n.store.fs
	if counts := n.kept && fs.nodes[n.id] == n; counts != n.counted {
		n.counted = counts
		if counts {
			fs.budget.change(directoryCost)
		} else {
			fs.budget.change(-directoryCost)
		}
	}
}

// hold keeps the bytes of n's head for further reads while it is open, if there is
// room; nil drops them. Caller holds fs.mu.
func (fs *fileSystem) hold(n *node, content []byte) {
	if content != nil && !fs.budget.fits(int64(len(content)), forContent) {
		return
	}
	fs.budget.change(int64(len(content) - len(n.content)))
	n.content = content
}

// holdList counts the listing that an open directory keeps, in place of an earlier
// one; or says why it may not. Caller holds fs.mu.
func (fs *fileSystem) holdList(h *handle, list []dirEntry) error {
	costs := int64(handleCost)
	for _, e := range list {
		costs += entryCost + int64(len(e.name))
	}
	if err := fs.afford(costs-h.held, forReading); err != nil {
		return err
	}
	fs.budget.change(costs - h.held)
	h.held = costs
	return nil
}

// returnMemory gives the system back what is no longer held, until the mount ends. The
// runtime would do it in minutes.
func (fs *fileSystem) returnMemory() {
	for {
		select {
		case <-fs.ctx.Done():
			return
		case <-fs.budget.fallen:
		}
		select { // more may be on its way
		case <-fs.ctx.Done():
			return
		case <-time.After(returnEvery):
		}
		fs.mu.Lock()
		fs.budget.most = fs.budget.held
		fs.mu.Unlock()
		debug.FreeOSMemory()
	}
}
