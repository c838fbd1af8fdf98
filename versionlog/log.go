// Package versionlog is the contract of mneme's version logs: for every memory
// store one dense, ordered history of commits, and the heads that follow from
// it. Backends live below this package (memlog, sqlitelog, later dynamolog)
// and pass the suite in logtest. The meaning of a commit is decided in one place, Build,
// which every backend calls inside its transaction.
package versionlog

import (
	"context"
	"iter"
	"time"
)

// Log keeps stores and their histories.
//
// Consistency: Commit is linearizable per store: there is one moment between
// its call and its return at which every expectation is checked and all its
// versions become the newest of their paths together, under the next sequence
// number. Sequence numbers of a store are 1, 2, 3, ... without gaps. Head,
// Last, Tip, Store and StoreNamed are strongly consistent: they see every
// commit acknowledged before their call. The iterators see at least those; for
// a store that does not exist they yield ErrNotFound, and they end with the
// first error.
//
// Durability: when Commit, CreateStore or DeleteStore returns nil, its effect survives a
// crash of the process and of the machine. When one returns an error that is none of
// the sentinels, its effect may or may not have happened, but never half of it; Commit
// may then be called again with the same Proposal.Key to settle which.
//
// Concurrency: all methods may be called at once from many goroutines, and
// many processes may use one backend.
//
// Paths: a Log takes a path as it is given and compares bytes. Callers bring
// it to canonical form first (package memory does). Its only rules are a
// leading slash and that no live path lies below that of a live memory. The path of a
// directory ends in a slash, that of a memory does not.
//
// Retries: a backend retries what its transport calls for, bounded and within
// the context; callers do not. Every method obeys ctx.
type Log interface {
	// CreateStore adds a store, whose history is empty. ID and Slug must be set, else
	// ErrInvalid, and unused, else ErrExists. Slugs of deleted stores are free again. An
	// Epoch of 0 is 1.
	CreateStore(ctx context.Context, s Store) error

	// Store returns the store of an id, archived ones too. ErrNotFound.
	Store(ctx context.Context, id string) (Store, error)

	// StoreNamed returns the store of a slug, archived ones too. ErrNotFound.
	StoreNamed(ctx context.Context, slug string) (Store, error)

	// Stores yields all stores, archived ones too, in byte order of their slugs, from
	// behind the slug after on; "" is from the first.
	Stores(ctx context.Context, after string) iter.Seq2[Store, error]

	// DeleteStore removes a store with its whole history. ErrNotFound.
	DeleteStore(ctx context.Context, id string) error

	// Commit appends the changes that p proposes, or nothing at all. An event takes effect on the
	// store with it: Store returns the result of Store.After, a new quota bounds every commit whose
	// call begins after the return, and an archived store refuses commits other than removals at
	// once and permanently.
	//
	// A redaction (StoreRedacted) erases the log's data of the versions that it names, in the same
	// step: their paths, digests, sizes and salts, wherever they stand, and the contents that the
	// log keeps (see Capabilities) and that no other version has. From then on they are read as
	// Version.Redacted says: Version, History and Newest return them, and Commits and CommitsBefore
	// have them in their commits. No path has them, so PathHistory and Last leave them out. In the
	// past a memory has no path from such a version on up to its next one that is whole. Totals no
	// longer count their bytes. The head of a live memory is refused: ErrLiveHead. Versions that are
	// erased already are skipped. An archived store accepts redactions. Versions that the store's
	// rule lets go of (RetentionApplied) are erased in the same way; the caller decides whether the
	// rule lets go of them.
	//
	// It returns the commit. A proposal whose every change is already the case (see
	// Change), or whose event would change nothing, returns a Commit for which Changes
	// is false: it carries the tip that the proposal was judged at, and is not part of
	// the history. When a commit with p's key is in the history already, that commit is
	// returned and nothing else happens. A log may forget a key a week after its commit, so
	// that a history can have several commits of one key; one of these is returned then. A
	// finished commit takes its place beside others of its key.
	//
	// Errors: *ConflictError when an expectation does not hold, *OverlapError when a path
	// would lie below a memory, or when a directory goes that is not empty, ErrArchived,
	// ErrReplica, ErrFenced, ErrNotFound (no such store), ErrTooLarge (more changes than
	// the backend takes in one commit; nothing was tried), *QuotaError, *GuardError, ErrInvalid (the
	// proposal contradicts itself), ErrReadOnly; of a redaction also ErrLiveHead,
	// ErrNoRedaction, and ErrNotFound for a version that is not there; ErrInvalid also where
	// a rule is not that of the store. An error of any kind may be ErrUntried, too.
	Commit(ctx context.Context, storeID string, p *Proposal) (*Commit, error)

	// Tip returns the end of a store's history. ErrNotFound.
	Tip(ctx context.Context, storeID string) (Tip, error)

	// Head returns the live version of a path. ErrNotFound.
	Head(ctx context.Context, storeID, path string) (Version, error)

	// Last returns the newest version that took place at a path, live or not:
	// a deletion, or the rename that led away from it, too. ErrNotFound when
	// there never was one.
	Last(ctx context.Context, storeID, path string) (Version, error)

	// Held reports whether something is below a path, or ever was; what was erased was not.
	// The path has no slash at its end. ErrNotFound (no such store).
	Held(ctx context.Context, storeID, path string) (bool, error)

	// Heads yields the live versions, of directories too, whose path is prefix itself or
	// lies below it, in byte order of their paths. The first is the one that follows the
	// path after, if that is not "". The prefix "/" is the whole store. A commit made
	// during the walk may be seen in part.
	Heads(ctx context.Context, storeID, prefix, after string) iter.Seq2[Version, error]

	// Children yields the direct children of a directory ("/" is the root, else no slash at the
	// end): the live version of each memory in it, and for each directory in it its own live
	// version or that of something below it; all in byte order of the yielded paths. If dir is
	// the path of a memory, or of nothing, it yields nothing. It costs a remote log about one
	// request per subdirectory or page, not one per memory. A commit made during the walk may
	// be seen in part.
	Children(ctx context.Context, storeID, dir string) iter.Seq2[Version, error]

	// Version returns a version of a store by its id. ErrNotFound.
	Version(ctx context.Context, storeID, id string) (Version, error)

	// History yields every version of a memory that is below a sequence number, newest
	// first; 0 is from the newest on. A memory that never was yields nothing.
	History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[Version, error]

	// PathHistory yields every version that took place at a path, newest first:
	// those that made, changed or brought a memory there, and those that deleted
	// it there or renamed it away; whichever memories they are of. The first is
	// that of Last. A path that never was yields nothing. A local log finds them
	// by an index. A remote one may have to read the history of the store down to
	// its beginning where more than one memory has left the path, or one has left
	// it and another come.
	PathHistory(ctx context.Context, storeID, path string) iter.Seq2[Version, error]

	// Newest returns the newest version of a memory, its deletion too. ErrNotFound when
	// there never was such a memory.
	Newest(ctx context.Context, storeID, memoryID string) (Version, error)

	// At returns the store as it was right after the commit of a sequence number; 0 is
	// before the first. ErrNotFound when there is no such commit. A local log has an
	// index of the past; a remote one may have to read the history up to there.
	At(ctx context.Context, storeID string, seq uint64) (State, error)

	// SeqAt returns the sequence number of the newest commit that was made at a time or
	// before; 0 when there is none. ErrNotFound (no such store).
	SeqAt(ctx context.Context, storeID string, at time.Time) (uint64, error)

	// Commits yields the commits with a sequence number above after, oldest
	// first and without gaps, up to at least the tip at the time of the call.
	Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*Commit, error]

	// CommitsBefore yields the commits below a sequence number that f takes, newest
	// first; 0 is from the newest on. A log may have to look at all others for it.
	CommitsBefore(ctx context.Context, storeID string, before uint64, f Filter) iter.Seq2[*Commit, error]

	// Wait returns nil when the store has, or may have, a commit above after.
	// It may return early without one; callers look at Commits and wait again.
	// How soon it notices is the backend's property: at once within a process
	// and between processes of one machine's embedded log, within the refresh
	// interval elsewhere, but at once when another call to this Log, such as Tip
	// or Commit, has come upon the commit. Errors: those of ctx, ErrNotFound.
	Wait(ctx context.Context, storeID string, after uint64) error

	// Capabilities returns the same for as long as the log is open.
	Capabilities() Capabilities

	// Close releases what the log holds. No other method may be running or be
	// called after.
	Close() error
}

// AllStores returns what Stores yields.
func AllStores(ctx context.Context, log Log) ([]Store, error) {
	var all []Store
	for s, err := range log.Stores(ctx, "") {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Tip is the end of a store's history.
type Tip struct {
	Seq    uint64    // 0 before the first commit
	Digest Digest    // chain digest of commit Seq; zero before the first commit
	Time   time.Time // time of commit Seq; zero before the first commit
	Totals Totals    // of the commits up to Seq; zero where data of an earlier mneme does not tell

	ArchivedAt time.Time // when the store was archived; zero while it is in use
}

// After returns the tip once c, the commit that follows t, is in.
func (t Tip) After(c *Commit) Tip {
	more := UsageOf(c.Versions)
	t.Totals = Totals{
		Bytes: t.Totals.Bytes + more.Bytes, Memories: t.Totals.Memories + more.Memories - c.Event.miscounted(),
		InHour: t.UsedAt(c.Time).LastHour + more.LastHour,
	}
	t.Seq, t.Digest, t.Time = c.Seq, c.Digest, c.Time
	if c.IsEvent(EventArchived) {
		t.ArchivedAt = c.Time
	}
	return t
}

// MaxSkew is how much the clocks of those who commit may differ. A history that is further
// ahead of a clock than that was written by a wrong one, or is judged by one.
const MaxSkew = 10 * time.Minute

// UsedAt is how much of its quota the store has used at a time. If the history is ahead of
// that time by more than MaxSkew, it is not known which versions are of the last hour, and
// none are counted.
func (t Tip) UsedAt(now time.Time) Usage {
	if ahead := t.Time.Sub(now); ahead > 0 && ahead <= MaxSkew {
		now = t.Time
	}
	used := Usage{Bytes: t.Totals.Bytes, Memories: t.Totals.Memories}
	if hourOf(now) == hourOf(t.Time) {
		used.LastHour = t.Totals.InHour
	}
	return used
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// A Survey is what the index of a log has of a store.
type Survey struct {
	Commits, Versions, Memories, Contents int
	Elsewhere                             []Digest // contents of versions that the log does not keep itself
}

// Capabilities are the optional abilities of a log. A field that is zero is an ability that
// it lacks. A log that wraps another has the capabilities of that one, except those that it
// changes.
type Capabilities struct {
	// MaxContent is how many bytes a Change may carry as its Content; 0: none may. Such
	// a log keeps blobs itself, so that a commit and the bytes it needs become durable in
	// one step. When Commit returns nil, the Content of every change is stored, whether
	// or not the change was the case already, and a damaged copy of it that the log had
	// is whole again. When it fails, none of them need be. The blobs are read where the
	// backend says; they go with their store when that is deleted.
	MaxContent int

	// ErasesContents says that a redaction erases contents that the log does not keep itself.
	ErasesContents bool

	// Near says that no call leaves this machine, so that none takes long unless another
	// process holds it up.
	Near bool

	// KnownTip returns what Tip would, but for Totals, if it need not wait for that:
	// neither for I/O nor for other calls.
	KnownTip func(storeID string) (tip Tip, known bool)

	// Purge finishes the work that redactions of a store have left, such as erasing copies that
	// another process is still reading, and reports the outcome for each place. It may be
	// called at any time, costs little when nothing is left, and may be repeated. An error says
	// that it could not look. Nil: the log supports no redactions.
	//
	// Versions are those that the caller wants to be erased. In some logs another process could
	// make the caller destroy more than that process may destroy itself. Such a log purges only
	// these versions, and reports other versions that events have erased as places where
	// something is left.
	Purge func(ctx context.Context, storeID string, versions []string) ([]Purged, error)

	// Unpurged returns the sequence numbers of the events that a Purge has not finished, whose
	// versions the caller must name to it. Nil: it finishes all events without names.
	Unpurged func(ctx context.Context, storeID string) ([]uint64, error)

	// Fits returns the error that Commit has for a proposal whatever the store holds: ErrTooLarge,
	// ErrInvalid. A finished commit is judged in full by it, see CheckImport. Nil: all that
	// Proposal.Validate takes fits.
	Fits func(p *Proposal) error

	// Left returns an error when something is left of a deleted store of an id, which a new one
	// of that id would meet. Nil: a deletion leaves nothing.
	Left func(ctx context.Context, storeID string) error

	// NewestContent is Newest together with the content of the version, verified, in one read.
	// Nil stands for a content that the version does not have, or that must be read where the
	// backend says: it is missing, damaged, or kept elsewhere. The caller may keep it.
	NewestContent func(ctx context.Context, storeID, memoryID string) (Version, []byte, error)

	// Clock returns the time by the clock that all who write to the log have in common, and how
	// far that of this machine is ahead of it; 0: they agree. Nil: the log has no such clock.
	Clock func() (now time.Time, ahead time.Duration)

	// Survey counts what the index has of a store. It reads neither records nor contents. Nil: only
	// the records tell; a nil Survey says the same of a store.
	Survey func(ctx context.Context, storeID string) (*Survey, error)

	// Next hands out commits as they arrive, to a caller that has everything up to after:
	// it blocks until there is at least one commit above after, and returns those it
	// has, in order and without gaps from after on. It spares a remote log the strongly
	// consistent read that Commits makes. It notices a commit as soon as Wait does, and
	// its errors are those of Wait.
	Next func(ctx context.Context, storeID string, after uint64) ([]*Commit, error)
}

// Now returns what Clock does; where the log has none, the time by the clock of the machine.
func (c *Capabilities) Now() (now time.Time, ahead time.Duration) {
	if c.Clock != nil {
		return c.Clock()
	}
	return time.Now(), 0
}

// CommitAt returns the commit of a sequence number, nil where the store has none.
func CommitAt(ctx context.Context, log Log, storeID string, seq uint64) (*Commit, error) {
	if seq == 0 {
		return nil, nil
	}
	for c, err := range log.Commits(ctx, storeID, seq-1) {
		if err != nil || c.Seq == seq {
			return c, err
		}
		break
	}
	return nil, nil
}
