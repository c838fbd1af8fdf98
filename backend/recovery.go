package backend

import (
	"context"

	"mneme/cas"
	"mneme/versionlog"
)

// Setup makes what a backend needs before there can be stores.
type Setup struct {
	// Run makes what is missing, changes nothing that is there, and calls report for
	// each step when it is done. It can be run again at any time, by many at once.
	// It reports whether there are stores that the index has lost, which
	// Recovery.Rebuild brings back.
	Run func(ctx context.Context, opts *SetupOptions, report func(SetupStep)) (orphaned bool, err error)
	// Plan lists the objects that Run would make, and the permissions that each policy needs.
	// It sends no requests. It uses only the owner of opts.
	Plan func(opts *SetupOptions) *SetupPlan
}

// SetupOptions are the optional settings of a Setup. Nil is the default.
type SetupOptions struct {
	// Move makes the index that of this location, though it was another's whose data
	// was copied here. All mounts of the other one must have ended.
	Move bool
	// Owner is the account that has the data. Default: the one that was named before,
	// or that of the index.
	Owner string
}

// SetupStep is one thing that Setup.Run looked after.
type SetupStep struct {
	What    string       `json:"what"`
	Outcome SetupOutcome `json:"outcome"`
	Note    string       `json:"note,omitempty"` // what there is to know or to do about it
}

// SetupOutcome says how a step went, in words.
type SetupOutcome string

// The outcomes.
const (
	SetupMade        SetupOutcome = "made"
	SetupWasThere    SetupOutcome = "was there"
	SetupReady       SetupOutcome = "ready"
	SetupUnsupported SetupOutcome = "not supported by this server"
	SetupDiffers     SetupOutcome = "differs" // from what Run would have made; the note says what to do
)

// SetupPlan is what Setup.Run would make, as commands of a shell, and which permissions
// allow what.
type SetupPlan struct {
	Policies []Policy `json:"policies"`
	Commands []string `json:"commands"`
	// StoreID and StoreSlug stand in the policies that are for one store for its id and
	// its slug.
	StoreID   string `json:"-"`
	StoreSlug string `json:"-"`
}

// Policy is a set of permissions, and whom it is for.
type Policy struct {
	Name   string `json:"name"`
	For    string `json:"for"`
	Policy any    `json:"policy"` // as JSON, what the backend takes
}

// Recovery is what a backend can do about what is lost, or may be one day.
type Recovery struct {
	// Rebuild makes the index of a store, or of all stores if store is "", again from the
	// records. No other process may write to the stores meanwhile. Nil: the index is not
	// separate from the records.
	Rebuild func(ctx context.Context, store string, progress Progress) error
	// Losses tells what was acknowledged and is not there, as far as the backend itself
	// remembers. It changes nothing. Nil: it remembers nothing.
	Losses func(ctx context.Context) ([]Loss, error)
	// AcceptLosses is Losses, and nothing of that is missed any more. If kept is not "",
	// it is a file which may hold what is lost. Nil: as Losses.
	AcceptLosses func(ctx context.Context) (lost []Loss, kept string, err error)
	// Backup copies stores, or all where refs is nil, with what is kept of conflicts,
	// as of one moment and while they are in use, into the directory dir, which is there
	// and empty. The copy is durable, and a location of its own, when Backup returns nil.
	// It may lack contents that the stores have lost: Backup.Lost. Nil: it cannot.
	Backup func(ctx context.Context, dir string, refs []string, progress Progress) (*Backup, error)
}

// Loss is something of a store that is lost.
type Loss struct {
	Store versionlog.Store // its slug is "" where it is lost as a whole
	What  string           // for a person
}

// Backup is what a backup holds.
type Backup struct {
	Stores    []BackupStore
	Files     int // of contents that are not in the database
	Conflicts int
	Lost      []LostContent
	// LastFile is the file of the directory that makes it a location. A program that
	// copies the directory further copies that file last, so that a part of a copy is
	// none.
	LastFile string
}

// BackupStore is a store in a backup, up to a sequence number.
type BackupStore struct {
	Slug string `json:"store"`
	ID   string `json:"id"`
	Seq  uint64 `json:"head_seq"`
}

// LostContent is a content that a store should have, and has not.
type LostContent struct {
	Store  versionlog.Store
	Digest cas.Digest
}
