package tools

import "mneme/errkind"

// Result is the answer to a call.
type Result struct {
	Text  string // for the model: what was asked for, or what went wrong
	Image *Image // of a view of a picture; else nil
	Error *Error // nil: it was done
	Made  []Made // the versions that it made
}

// Image is a picture that a memory holds.
type Image struct {
	MediaType string // image/png or image/jpeg
	Data      []byte
}

// Made is a version that a call made.
type Made struct {
	Path    string // as the tool has it: /memories/…
	Version string // its id
	Seq     uint64 // its number in the store's sequence
	Created bool   // there was no file before
	Note    string // of a Write or Restore: a note about it to the agent, in one line; "": none
}

// Error says what went wrong, for an agent, and whether trying again can help.
type Error struct {
	Kind     errkind.Kind
	Retry    Retry
	Conflict int  // that keeps the text; 0: none
	Unsure   bool // the change may have been made all the same

	text string
}

// Error returns the text for the agent.
func (e *Error) Error() string { return e.text }

// Refusal is the error of a call that a face does not do, with a text for the agent.
func Refusal(text string) *Error { return failed(errkind.Invalid, text) }

// Retry says whether the same call can succeed.
type Retry int

const (
	Never     Retry = iota // not as it is
	AfterView              // when the file has been viewed
	Later                  // when time has passed
)

// String returns it as results in JSON have it.
func (r Retry) String() string { return []string{"never", "after_view", "later"}[r] }

// failed returns an error that no further try helps.
func failed(kind errkind.Kind, text string) *Error { return &Error{Kind: kind, text: text} }
