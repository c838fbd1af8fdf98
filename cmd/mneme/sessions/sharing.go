package sessions

import (
	"syscall"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/note"
)

// SharingFlags say how a session shares a store with others.
type SharingFlags struct {
	OnConflict string `enum:"fail,merge" default:"fail" help:"What to do with a write to a file that somebody else has changed: fail, or merge changes to other lines. Default: ${default}."`
	Strictness
	ConflictErrno string `enum:"ebusy,estale" default:"ebusy" help:"The error that a lost write gets: ebusy, which all programs can name, or estale. Default: ${default}."`
}

// Strictness says whether a session replaces only what it has read.
type Strictness struct {
	Strict *bool `negatable:"" help:"Refuse to overwrite a memory that was not read in this session. Default: no, but yes with the token of a session for a server."`
}

// Settle makes the session of a token strict, unless the flag decides: its writes may come
// from texts that no person has read.
func (s *Strictness) Settle(lib *backend.Library) {
	if isToken := lib.Credential().Session != ""; s.Strict == nil && isToken {
		s.Strict = &isToken
	}
}

// IsStrict reports whether a session replaces only memories that it has read.
func (s *Strictness) IsStrict() bool { return s.Strict != nil && *s.Strict }

// ConflictErrnos are the values of --conflict-errno.
var ConflictErrnos = map[string]syscall.Errno{"estale": syscall.ESTALE, "ebusy": syscall.EBUSY}

// NoteOptions are the options of the note about such a session's stores.
func (f *SharingFlags) NoteOptions() *note.Options {
	return &note.Options{
		ConflictErrno: ConflictErrnos[f.ConflictErrno], Merge: f.OnConflict == "merge", Strict: f.IsStrict(),
		History: "Where the program mneme is at hand, `mneme log PATH` lists the versions of a file, and `mneme restore PATH N` makes one current again; else a person can.",
	}
}

// PrintNote prints the note for an agent.
func PrintNote(a *app.App, text string) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Prompt string `json:"prompt"`
		}{text})
	}
	a.Printf("%s", text)
	return nil
}
