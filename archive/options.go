package archive

import (
	"context"

	"mneme/errkind"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// Mode is what an import does with a store that is there.
type Mode string

// The modes.
const (
	New     Mode = "new"     // refuses it, unless an interrupted import of the archive has left it
	Replace Mode = "replace" // puts the archive's store in its place, once it is archived and kept
	Merge   Mode = "merge"   // adds what it has not, as new commits; keeps what differs as conflicts
)

var (
	// ErrTaken says that there is a store of the id or slug, which has another history.
	ErrTaken = errkind.New(errkind.Exists, "there is another store of that name or id")
	// ErrBeginning says that the store has a beginning of the archive's history, which no import
	// of the archive is known to have left.
	ErrBeginning = errkind.New(errkind.Exists, "the store has a beginning of it")
	// ErrAhead says that the store has the archive's history, and goes on behind it.
	ErrAhead = errkind.New(errkind.Exists, "the store has all of it, and later commits")
	// ErrInUse says that a store takes commits, and so cannot be replaced.
	ErrInUse = errkind.New(errkind.InUse, "the store is not archived")
	// ErrIncomplete says that an archive lacks contents which the exported store had lost.
	ErrIncomplete = errkind.New(errkind.Corrupt, "the archive is incomplete")
)

// ImportOptions adjust Import. Author must be set.
type ImportOptions struct {
	// Mode. Default: New.
	Mode Mode
	// Slug is that of the store to import into, or to make. Default: the archive's.
	Slug string
	// Author makes the commits of a merge, and a store of an archive of heads.
	Author *memory.Author
	// Keep is called with a store that is about to be replaced, and returns how far it has
	// kept its history. An error ends Import. Default: nothing is replaced.
	Keep func(context.Context, versionlog.Store) (versionlog.Tip, error)
	// Conflicts returns where what differs is kept. Default: what differs ends a merge.
	Conflicts func(storeID string) *conflict.Store
	// Marks is a directory that notes which imports have begun, beside those of the library's
	// stores that this machine keeps. Default: none is gone on with.
	Marks string
	// Confirmed says that the caller confirms the credentials that a merge brings into a store
	// which refuses them. Default: *memory.SecretsError, before anything is written.
	Confirmed bool
	// Warn is called with each content that brings a credential into a store whose rule asks
	// for warnings. Default: no call.
	Warn func(memory.SecretsFound)
	// KeepGoing imports an archive that lacks contents. Default: ErrIncomplete.
	KeepGoing bool
	// Progress. Default: no calls.
	Progress Progress
	// Workers is how many contents are stored at once. Default: 16.
	Workers int
}

// Imported is what an import has made.
type Imported struct {
	Store     versionlog.Store
	Commits   uint64 // that were appended
	Contents  int    // of the archive, which are stored now
	Created   int    // memories, by a merge
	Unchanged int    // memories that a merge has found as they are in the archive
	Skipped   int    // memories whose contents the archive lacks
	Conflicts []int  // that a merge has kept, or found kept
	Replaced  bool   // another history
}
