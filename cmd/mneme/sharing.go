package main

import (
	"syscall"

	"mneme/backend"
	"mneme/note"
)

// sharingFlags say how a session shares a store with others.
type sharingFlags struct {
	OnConflict string `enum:"fail,merge" default:"fail" help:"What to do with a write to a file that somebody else has changed: fail, or merge changes to other lines. Default: ${default}."`
	strictness
	ConflictErrno string `enum:"ebusy,estale" default:"ebusy" help:"The error that a lost write gets: ebusy, which all programs can name, or estale. Default: ${default}."`
}

// strictness says whether a session replaces only what it has read.
type strictness struct {
	Strict *bool `negatable:"" help:"Refuse to overwrite a memory that was not read in this session. Default: no, but yes with the token of a session for a server."`
}

// settle has the session of a token be strict, unless the flag says something: what it does may come from
// texts that nobody has looked at.
func (s *strictness) settle(lib *backend.Library) {
	if isToken := lib.Credential().Session != ""; s.Strict == nil && isToken {
		s.Strict = &isToken
	}
}

func (s *strictness) isStrict() bool { return s.Strict != nil && *s.Strict }

// conflictErrnos are the values of --conflict-errno.
var conflictErrnos = map[string]syscall.Errno{"estale": syscall.ESTALE, "ebusy": syscall.EBUSY}

// noteOptions are those of the note about such a session's stores.
func (f *sharingFlags) noteOptions() *note.Options {
	return &note.Options{
		ConflictErrno: conflictErrnos[f.ConflictErrno], Merge: f.OnConflict == "merge", Strict: f.isStrict(),
		History: "Where the program mneme is at hand, `mneme log PATH` lists the versions of a file, and `mneme restore PATH N` makes one current again; else a person can.",
	}
}

// printNote prints what to tell an agent.
func (a *app) printNote(text string) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Prompt string `json:"prompt"`
		}{text})
	}
	a.Printf("%s", text)
	return nil
}
