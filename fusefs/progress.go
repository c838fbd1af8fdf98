package fusefs

import "os"

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

// beginsLocked notes that a thread continues to write.
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

// laterLocked is the number of bytes at the end of a stage that came after a mark, if nothing
// else came after it: they can be left out. If the stage is merged with another session's text,
// nothing can be left out.
func (fs *fileSystem) laterLocked(st *stage, m *mark) int {
	if m == nil || fs.dividesLocked(st, m) {
		return 0
	}
	return int(st.added - m.added)
}

// dividesLocked reports whether what came after a mark cannot be left out.
func (fs *fileSystem) dividesLocked(st *stage, m *mark) bool {
	return m.changes < st.rewrote || st.overtaken || fs.opts.Merge && !st.appendOnly
}
