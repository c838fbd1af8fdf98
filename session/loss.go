package session

import (
	"fmt"

	"mneme/errkind"
	"mneme/memory"
	"mneme/versionlog"
)

// Reason is why a write or a removal was refused.
type Reason int

const (
	Changed     Reason = iota // another session has changed the memory since this one read it
	Gone                      // another session has removed or renamed it
	NeverRead                 // the session has never read it, and is strict
	TakesBack                 // it would take back another session's change, which was only read
	MovedUnread               // what was there was moved away by this session, which has not read it
)

// NotKept stands for the conflict of a loss that could not be kept.
const NotKept = -1

// LostError says that a write or a removal was refused, and why. It is a
// versionlog.ErrConflict, under errors.Is.
//
// Its text is for an agent: what happened, what to do, and where the text is that was not
// saved.
type LostError struct {
	Store, Path  string
	Reason       Reason
	Base, Theirs *memory.Head // nil: no memory
	Change       *Change      // of TakesBack; else nil
	At           string       // of MovedUnread: where it has moved
	Conflict     int          // that keeps the text; 0: nothing was written; NotKept: it could not be kept

	text string
}

// Error says what happened, what to do and where the text is.
func (e *LostError) Error() string {
	if e.text != "" {
		return e.text
	}
	return fmt.Sprintf("%s:%s was changed by another session", e.Store, e.Path)
}

// Is makes every *LostError a versionlog.ErrConflict.
func (e *LostError) Is(target error) bool { return target == versionlog.ErrConflict }

// Kind is errkind.Conflict.
func (e *LostError) Kind() errkind.Kind { return errkind.Conflict }

// HeldError says that the store's policy holds back a text, and which conflict keeps it.
type HeldError struct {
	Store    string // its slug
	Conflict int    // that keeps the text, and confirms it when it is resolved; NotKept: it could not be kept
	Err      error  // what the log says
}

// Error is that of the log.
func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *HeldError) Unwrap() error { return e.Err }

// Loss is a text that is not committed, and must be kept.
type Loss struct {
	Path   string
	Base   *memory.Head // what it is based on; nil: no memory
	Theirs *memory.Head // what is there instead; nil: no memory
	Yours  []byte
	Change *Change // that it would have taken back; else nil
	Why    string  // where it is neither that nor that another session wrote; else ""
	Noted  bool    // Why is only what an error in the journal has said in full
	Held   bool    // Why is that the store's policy holds it back

	Mark     uint64 // the face's own: how far the text had come
	Conflict int    // that keeps the text as it was before, and must keep it as it is; 0: none does
	IsKept   bool   // Conflict keeps it as it is already
	Once     bool   // the request may be repeated: if the newest loss of one that may is the same, and is not settled, it is kept already
}
