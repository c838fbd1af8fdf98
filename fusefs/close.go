package fusefs

import (
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/openfiles"
)

// One write(2) of a program can be several requests: Linux (since 5.13) ends one at
// the end of the first page, unless it begins there or the page is in its cache, and
// every one at fusedev's limit. It holds the inode's lock over them all, so that no
// other write to the inode comes in between, and no fsync. But a close does, by
// another process, with the file open by itself or by inheritance.
//
// A commit must not divide them. So the close of a handle commits what the file was
// after the newest change through that very handle: by then all earlier writes were
// whole. A later one that may not be, since it is another thread's and ends with a
// page, is another close's. And what is closed by
// a process that has not written it is left to the one that has: a child that ends,
// or whose exec closes what it has inherited, does not know whether its parent is in
// the middle of something.

// progress is how far the content of a stage has come, which only grows. Its fields
// are guarded by fileSystem.mu.
type progress struct {
	mark
	whole     mark   // up to where every write(2) is known to be whole
	thread    uint32 // that has written last
	pageEnd   bool   // that write ended with a page
	committed uint64 // what changes was in the newest version made of it
	rewrote   uint64 // what changes was after the newest that was not an addition at the end
	anyones   uint64 // what changes was after the newest that any handle's close commits
}

// mark is a moment in that.
type mark struct {
	changes uint64 // counts changes of data
	added   uint64 // counts bytes that were added at the end
}

// changedLocked notes that a thread has changed the file through h.
func (h *handle) changedLocked(thread uint32) { h.thread, h.wrote = thread, h.stage.mark }

// beginsLocked notes that a thread goes on to write.
func (st *stage) beginsLocked(thread uint32) {
	if thread != st.thread || !st.pageEnd {
		st.whole = st.mark
	}
}

// endsLocked notes that a thread has written up to an offset.
func (st *stage) endsLocked(thread uint32, end uint64) {
	st.thread, st.pageEnd = thread, end%uint64(os.Getpagesize()) == 0
	if !st.pageEnd {
		st.whole = st.mark
	}
}

// laterLocked is how many bytes at the end of a stage came after a mark, if that is all
// that came: they can be left out. Of what is merged with another session's nothing
// can.
func (fs *fileSystem) laterLocked(st *stage, m *mark) int {
	if m == nil || m.changes < st.rewrote || st.overtaken || fs.opts.Merge && !st.tails {
		return 0
	}
	return int(st.added - m.added)
}

// leaves reports whether a descriptor of h that is closed by a thread leaves what was
// written to the file for another close to commit; else up to where it is committed,
// nil for everything.
//
// A shell that redirects into a file opens it, duplicates the descriptor and
// closes the first before anything is written; and every program it then starts
// closes its copy. A file that is only emptied or made so far is therefore not
// committed while the process that closes it, or one it descends from, has
// another descriptor of it: the close of that one will come. Where the daemon does
// not see that process, the file may have another descriptor, too: it is committed
// when its handle is released.
//
// What has content is committed by the process that has written it, whoever else has
// it open; by another one only if neither that process nor its own has it. Where the
// daemon does not see them, it is committed: only so its error is heard.
func (fs *fileSystem) leaves(h *handle, thread uint32) (leaves bool, upTo *mark) {
	fs.mu.RLock()
	st, node := h.stage, h.node.id
	all := st.err != 0 || st.overtaken || st.anyones > st.committed
	owed := !st.dirty || h.node.store.session.IsInDoubt(&st.lost) // its error, if there is one, is to be heard
	content, wrote, committed, last := st.wrote, h.wrote, st.committed, h.thread
	until := wrote
	switch {
	case thread == st.thread && thread != 0: // who closes does not write
		until = st.mark
	case st.whole.changes > wrote.changes:
		until = st.whole
	}
	fs.mu.RUnlock()
	switch {
	case all:
		return false, nil
	case owed:
		return false, &until
	case wrote.changes <= committed: // nothing, through this handle
		return true, nil
	case !content:
		return fs.openFiles.AncestryHasOpen(thread, node) != openfiles.No, &until
	case last == thread || fs.openFiles.SameProcess(last, thread):
		return false, &until
	}
	return fs.openFiles.HasOpen(last, node) == openfiles.Yes || fs.openFiles.AncestryHasOpen(thread, node) == openfiles.Yes, &until
}

// closeFailed gives up what the last writer's close could not commit: whoever
// opens the file after that close, and before the kernel gets around to
// releasing the handle, finds what was there before.
func (fs *fileSystem) closeFailed(n *node, st *stage, status fuse.Status) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if st.writers == 1 && st.err == 0 && !st.overtaken { // else nobody sees it anyway
		fs.poisonLocked(n, st, syscall.Errno(status))
	}
}
