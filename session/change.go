package session

import "mneme/memory"

// Change is another session's change that this session has done no more than read.
//
// An open for reading does not say which process will write, and from which text: one process of
// a session searches all files, another writes one of them from the text that it read before
// another session changed it, and the session "knows" that change. So the session remembers the
// changes that it has only read. The text that it then writes is judged by them: if the text
// takes such a change back (memory.TakesBack), it is refused once, or merged, as if it were based
// on the version before.
//
//  1. A read of a version that the session does not know is a change, from the version that it
//     knew there to the one that it reads (Knowledge.Read).
//  2. A write that keeps the other's lines passes, and the changes stay: another process of the
//     session may still hold the older text. A change that the head no longer shows does not
//     matter to any session. The changes stay when the session then removes the memory, and the
//     memory that it makes in its place is judged: rm and > replace a file, too.
//  3. A write that takes a change back is refused, and kept as a conflict. Then the
//     next read of the file says that it is meant: the next write passes unjudged.
//
// Bytes that were only appended are not judged, nor is a text that is written through a handle
// through which the version was read. A text that is written through a mapping is judged even so,
// but only as a text that was made of the one before: a page that a program writes over is read
// first, by the kernel. A write where nothing was only read reads nothing.
type Change struct {
	From  *memory.Head // nil: no memory, or not known
	Known bool         // whether From is; else only Cut counts
	To    *memory.Head
	Cut   int64 // how long a reader took the text to be before To, in bytes; 0: not known
}

// Under returns what a write that takes the change back is based on; head where it
// is not known.
func (c *Change) Under(head *memory.Head) *memory.Head {
	if c.Known {
		return c.From
	}
	return head
}
