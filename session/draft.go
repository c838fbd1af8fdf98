package session

import (
	"context"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Text is a text that will become the next version of a path: the stage of a file of a mount, a
// file renamed over a memory, the bytes of a call. The session asks for it again whenever it
// starts over.
//
// Its methods are called without locks and, for one Text, one after another (Turn). Two may
// be called at any time: Path, and LostReply, which must not take a lock.
type Text interface {
	// Turn is shared by the texts whose saves must follow one another.
	Turn() *Turn
	// LostReply is the text's; nil if no call will save the text again.
	LostReply() *LostReply
	// Path is where the text must go now; "" if it has no place in the store.
	Path() string
	// Draft returns the draft to commit now. Nil: there is none, and err says why, or is nil.
	// decided is a path of which the log has just said what is there, and of which the face has
	// been told by Met or Rebase: it need not be asked again.
	Draft(decided string) (*Draft, error)
	// Met tells which memory the log has at the draft's path, instead of the one that the draft
	// was meant to replace; nil: no memory.
	Met(d *Draft, theirs *versionlog.Version)
	// Rebase puts the text on theirs. content is what it is then: for an append what
	// theirs holds, to which the text adds itself, else theirs and the draft merged. Rebase
	// reports whether it has done so: nothing may have happened to the text since the
	// draft that stands against it.
	Rebase(d *Draft, theirs *memory.Head, content []byte) bool
	// Committed tells that v holds the draft. c is the commit; nil: v was there already.
	// The face brings v into what it shows and, with its lock held, calls Holds, and Freed
	// if the commit has removed something.
	Committed(d *Draft, v *versionlog.Version, c *versionlog.Commit)
	// Lost tells that the draft has lost, and the whole text with it, and returns the part of it
	// that must be kept: the text as it is now. Without a draft (Lose) the text says itself what
	// is there instead. With its lock held the face calls Loses.
	Lost(d *Draft) Loss
	// Kept tells that a loss is kept, as l.Conflict, and that the text is based on l.Base
	// from now on.
	Kept(l Loss)
	// Beside runs the commit of a draft, and returns its error. A face that keeps something next
	// to a version, counts commits, or shows why one was refused, does it there.
	Beside(d *Draft, commit func() error) error
}

// LostReply is the draft of a text whose commit ended with an error, and may be in the
// log all the same. It lies with its text; the zero value is that there is none. The
// session guards it.
type LostReply struct{ draft *Draft }

// Draft is what one commit takes from a text. It does not change once it was proposed.
type Draft struct {
	Path     string
	Spelling string     // a form of the path that comes to be, see memory.Change
	Data     []byte     // the content that the memory will have
	Digest   cas.Digest // of Data; zero: not known

	Base      *memory.Head           // what it replaces; nil: no memory
	Expect    versionlog.Expectation // of the head; zero: that it is Base
	Unchanged bool                   // Data is what Base holds: it is made sure of, and no version comes of it

	Append bool // Data is what Base holds with more at its end: it goes to the end of whatever is there
	Added  int  // of an append: how many bytes of Data are new

	Mark uint64          // the face's own: how far the text had come
	Key  string          // idempotency key; "": a fresh one
	Used bool            // Key may have been proposed before, by an earlier process say
	Also []memory.Change // in the same commit

	Options memory.CommitOptions // of the commit, except Key and Fresh; a merge has a Message of its own

	Judge []Change // by which it is judged: those of Knowledge.ToJudge, none if Base was read through the handle that writes, unless Mapped

	// Mapped says that Base was read through the handle that writes, but that the text was written
	// through a mapping: the kernel reads what a program maps to write over it. So it takes a change
	// back only if it was made of the text before (memory.MadeOf).
	Mapped bool

	Lost   bool         // it has lost already, because of Theirs
	Theirs *memory.Head // what is there instead of Base; nil: no memory

	// Newer is what has replaced the version that holds the draft, as far as the session has
	// come upon it.
	Newer *versionlog.Version

	// Aside is called instead of a commit, if it is not nil: the draft is not for the
	// history.
	Aside func(context.Context) error

	message string
	back    bool // merged, since it would have taken a change back
	resumed bool // it was proposed before, and is not known to have failed
}

// Merged reports whether the draft is theirs and the text's own merged by lines, which no session
// has read.
func (d *Draft) Merged() bool { return d.message != "" }

// MergedBack reports whether it was merged since it would have taken a change back.
func (d *Draft) MergedBack() bool { return d.back }

func (d *Draft) expect() versionlog.Expectation {
	if d.Expect != (versionlog.Expectation{}) {
		return d.Expect
	}
	return expectVersion(d.Base)
}

// SaveOptions go with a Save; nil and the zero value are the default.
type SaveOptions struct {
	// Unasked says that no caller has asked for it and none will hear of it: bytes that cannot be
	// committed stay as they are, and the error is ErrUncommitted or that of the commit.
	Unasked bool
	// Claimed says that the caller has claimed the path.
	Claimed bool
}

func expectVersion(v *memory.Head) versionlog.Expectation {
	if v == nil {
		return versionlog.ExpectAbsent()
	}
	return versionlog.ExpectVersion(v.ID())
}
