package versionlog

import (
	"strings"
	"time"

	"mneme/cas"
)

// Digest is a SHA-256, of a blob or of a commit.
type Digest = cas.Digest

// Op says what a version did to its memory.
type Op string

// The operations.
const (
	OpCreated  Op = "created"
	OpModified Op = "modified"
	OpRenamed  Op = "renamed"
	OpDeleted  Op = "deleted"
)

// Actor is the author of a commit: a person, a program or an agent.
type Actor struct {
	Kind ActorKind `json:"kind"`
	ID   string    `json:"id"`
}

// ActorKind is the kind of an actor.
type ActorKind string

// The kinds of actors.
const (
	ActorSession        ActorKind = "session"         // an agent at work in a session
	ActorUser           ActorKind = "user"            // a person
	ActorAPIKey         ActorKind = "api_key"         // a program with a key
	ActorServiceAccount ActorKind = "service_account" // a program with an account
)

// String returns the actor as "kind:id".
func (a Actor) String() string { return string(a.Kind) + ":" + a.ID }

// Version is one immutable change of one memory, or of one directory: a directory that
// was made on purpose is in the history as well, and stays while nothing is in it. Its
// path ends in a slash, it has no content, and but for that its life is that of a
// memory. A directory that only memories imply has no versions.
type Version struct {
	ID       string // "memver_…"; sorts in the order of the history within a store
	MemoryID string // "mem_…"; the same through renames
	Parent   string // version id this one replaced; "" for a memory's first
	Seq      uint64 // sequence number of its commit
	Op       Op
	Path     string // where the memory is after this version (was, for OpDeleted)
	From     string // where it was before, for OpRenamed; else ""
	Spelling string // Path as its author spelled it, where that is another form of it; else ""
	Digest   Digest // of the content; zero for OpDeleted
	Size     int64  // of the content in bytes; 0 for OpDeleted
	Actor    Actor
	Session  string // session id; "" outside one
	Time     time.Time
	Message  string
}

// Live reports whether the memory exists after this version.
func (v *Version) Live() bool { return v.Op != OpDeleted }

// IsDir reports whether v is a version of a directory.
func (v *Version) IsDir() bool { return isDir(v.Path) }

func isDir(path string) bool { return strings.HasSuffix(path, "/") }

// Redacted reports whether path, content, size and salt of v were erased.
func (v *Version) Redacted() bool { return v.Path == "" }

// Erase removes the fields from v that a redaction erases.
func (v *Version) Erase() {
	v.Path, v.From, v.Spelling, v.Digest, v.Size = "", "", "", Digest{}, 0
}

// At reports whether v took place at path: it left the memory there, deleted it
// there, or renamed it away.
func (v *Version) At(path string) bool { return v.Path == path || v.Op == OpRenamed && v.From == path }

// HasText reports whether v gave its memory a content that is still there.
func (v *Version) HasText() bool { return v.Live() && !v.IsDir() && !v.Redacted() }

// Arrives reports whether v brought a memory to its path, at which there was none.
func (v *Version) Arrives() bool { return v.Op == OpCreated || v.Op == OpRenamed }

// Commit is one atomic step of a store's history: versions, or one event.
type Commit struct {
	Format   int // of its record, 1 to RecordFormat; it says what the digests bind
	StoreID  string
	Seq      uint64
	Epoch    uint64    // of the store
	Time     time.Time // microseconds, UTC; never before the previous commit's
	Actor    Actor
	Session  string
	Message  string
	Key      string            // the proposal's idempotency key
	Meta     map[string]string // what its author notes of it (model, tool, sources, …), see MaxMetaPairs
	Prev     Digest            // chain digest of commit Seq-1; zero for the first
	Digest   Digest            // chain digest of this commit, see docs/FORMAT.md
	Event    *Event            // nil: it has versions
	Versions []Version
	Seals    []Seal // Seals[i] binds Versions[i] to the chain
}

// Changes reports whether the commit is a step of the history. The commit of a proposal
// that was the case already is not.
func (c *Commit) Changes() bool { return len(c.Versions) > 0 || c.Event != nil }

// IsEvent reports whether the commit holds an event of a kind.
func (c *Commit) IsEvent(kind EventKind) bool { return c.Event != nil && c.Event.Kind == kind }

// RecordFormat is the format of the records of new commits, and the newest that this
// package reads. docs/FORMAT.md describes it.
const RecordFormat = 2

// Event is recorded by a control commit instead of versions: something that happened to the
// store as a whole. It has a sequence number and is in the digest chain like any commit, so
// that a copy of the history has it too.
type Event struct {
	Kind EventKind
	// Fields are what became of it, by name: see the kinds. Values are text; numbers are
	// decimal.
	Fields map[string]string
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events, with their fields.
const (
	// EventCreated begins the history of a store. It has the fields that describe a
	// store, see storeFields, and created_at, microseconds since 1970.
	EventCreated EventKind = "created"
	// EventUpdated has those of the store's fields that were changed;
	// "metadata_removed." and a key, with no value, is a pair that was taken away.
	EventUpdated EventKind = "updated"
	// EventArchived has no fields.
	EventArchived EventKind = "archived"
	// EventPromoted has no fields; the epoch of its commit, and of those that follow, is
	// higher than that of the commits before.
	EventPromoted EventKind = "promoted"
	// EventRetention is as EventRedacted, but of versions that the store's Retention lets
	// go. It has the fields keep_days and keep_versions of that rule, those that are not 0.
	EventRetention EventKind = "retention"
	// EventRedacted has the field versions, the ids of versions whose path, content,
	// size and salt were erased, with a space between; the message says why. A log erases
	// them, and the contents that no other version has, with the commit. directories, if
	// it is not 0, is how many of the versions made a directory, less how many removed
	// one: erased they count as those of memories.
	EventRedacted EventKind = "redacted"
)

// Seal ties the erasable fields of a version (path, from, digest, size) to the
// digest chain. Only Payload enters the chain, so erasing the fields together
// with the Salt leaves the chain valid and the fields unguessable.
type Seal struct {
	Salt    Salt
	Payload Digest
}

// Salt is 128 random bits.
type Salt [16]byte

// Proposal is the change that a caller asks Commit to append.
type Proposal struct {
	// Key makes the commit idempotent: unique to this one intent, 1 to 128
	// bytes, see NewKey.
	Key string
	// Fresh says that the caller has just made the key, and has proposed nothing
	// under it before: then no commit can have it. A log may look the key up all
	// the same. A proposal that is repeated is not fresh.
	Fresh   bool
	Actor   Actor
	Session string
	Message string
	Meta    map[string]string // see Commit.Meta
	// Epoch is that of the store as the caller knows it; 0: any.
	Epoch uint64
	// Quota bounds how much the session adds to the store; the session has used Used of it. The
	// proposer computes Used. A commit that only deletes is never refused for the quota.
	Quota Quota
	Used  Usage
	// Deleted is how many memories the session has deleted from the store within the last
	// minute. The proposer counts. Confirmed says that the caller confirms a deletion which the
	// store's guard would otherwise refuse.
	Deleted   int64
	Confirmed bool
	// Finished is the commit that the changes have become elsewhere, see Import; nil: it
	// is made now.
	Finished *Commit
	// Changes are made together. Each path may stand in one change only, as
	// Path or as To; every expectation speaks of the state before the commit.
	Changes []Change
	// Event is proposed instead of changes.
	Event *Event
}

// Action is the kind of a change.
type Action int

// The actions.
const (
	// Put makes Digest the content of Path. Without a head it creates a memory;
	// with one it is a new version of that memory. When the head already has
	// that content, the change is already the case, whatever version was
	// expected; only an expectation of absence still fails.
	Put Action = iota + 1
	// Remove deletes the memory at Path, which must be there, or the directory, with
	// which everything below it must go.
	Remove
	// Rename moves the memory at Path, which must be there, to To, which must
	// be absent; or the directory, with everything below it. With a Digest, the memory
	// has that content then.
	Rename
	// MakeDir makes a directory at Path, which ends in a slash. Where a directory is
	// already, also one that only memories imply, and stays, the change is already the
	// case; only an expectation of absence fails. It does not, where the directory has
	// what the same proposal takes away: so a directory stays that loses its last memory.
	MakeDir
)

// Change is one part of a proposal.
type Change struct {
	Action Action
	Path   string
	To     string // Rename
	// Spelling becomes that of the version at Path or, for a Rename, at To; the path itself
	// means none. A Put without one keeps the head's.
	Spelling string
	// Digest is the content of the memory that is put or renamed. It is zero for a rename that
	// keeps the content. The blob must be durable before Commit is called, unless Content has
	// it.
	Digest Digest
	Size   int64 // of the blob in bytes, where there is a Digest
	// Content, for a log that keeps it (see Capabilities), is the blob itself, whose digest
	// the caller vouches for. Nil is none: an empty blob is an empty slice.
	Content []byte
	// MemoryID, for a Put at a path without a head, brings the deleted memory
	// of that id back instead of creating one: the new version's parent is its
	// deletion. ErrInvalid when that memory is live or never was.
	MemoryID string
	Expect   Expectation // of the head at Path
}

// Puts reports whether the change gives a memory a content.
func (c *Change) Puts() bool { return c.Action == Put || c.Action == Rename && !c.Digest.IsZero() }

// Expectation is a condition on the head of a path. The zero value is invalid,
// so that no write is unconditional by oversight.
type Expectation struct {
	kind    expectKind
	version string
	digest  Digest
}

type expectKind int

const (
	expectAny expectKind = iota + 1
	expectAbsent
	expectExists
	expectVersion
	expectDigest
)

// ExpectAny holds for every head and for none.
func ExpectAny() Expectation { return Expectation{kind: expectAny} }

// ExpectAbsent holds when the path has no head.
func ExpectAbsent() Expectation { return Expectation{kind: expectAbsent} }

// ExpectExists holds when the path has a head.
func ExpectExists() Expectation { return Expectation{kind: expectExists} }

// ExpectVersion holds when the head is the version of that id.
func ExpectVersion(id string) Expectation { return Expectation{kind: expectVersion, version: id} }

// ExpectDigest holds when the head has that content.
func ExpectDigest(d Digest) Expectation { return Expectation{kind: expectDigest, digest: d} }

// String describes the expectation for an error message.
func (e Expectation) String() string {
	switch e.kind {
	case expectAny:
		return "anything"
	case expectAbsent:
		return "no memory"
	case expectExists:
		return "a memory"
	case expectVersion:
		return "version " + e.version
	case expectDigest:
		return "content " + e.digest.String()
	}
	return "invalid expectation"
}

// Holds reports whether a path satisfies e whose head is given; nil is absent.
func (e Expectation) Holds(head *Version) bool {
	switch e.kind {
	case expectAny:
		return true
	case expectAbsent:
		return head == nil
	case expectExists:
		return head != nil
	case expectVersion:
		return head != nil && head.ID == e.version
	case expectDigest:
		return head != nil && head.Digest == e.digest
	}
	return false
}
