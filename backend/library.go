package backend

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"mneme/cache"
	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/spool"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/witness"
)

// Options are the optional settings of Open. Nil and zero fields are the defaults.
type Options struct {
	// ReadOnly opens for reading only; nothing is made or changed, on this machine
	// neither. Default: reading and writing.
	ReadOnly bool
	// Create makes an embedded store where there is none. Default: ErrNoStores.
	Create bool
	// Direct is for the verification of stores. It reads contents from the backend itself, past
	// every cache, makes no directory for conflicts on this machine, and does no background
	// work, such as packing.
	Direct bool
	// Busy is for a process that answers many at once: it keeps more in memory. Default: what an agent's
	// machine can spare.
	Busy bool
	// Refresh is how late another process's commit may be seen. Default: the backend's.
	Refresh time.Duration
	// CacheDir is where contents and heads of a backend on another machine are kept.
	// Default: mneme's part of the user's cache directory; without one nothing is kept.
	CacheDir string
	// CacheBytes is how much of contents is kept there, for all processes together.
	// Default: that of cache.Options; less than 0: nothing.
	CacheBytes int64
	// TokenFile has the credential for a server. It is read again when it changes. Default:
	// $MNEME_TOKEN_FILE, or else the credential is $MNEME_TOKEN.
	TokenFile string
	// Logger gets the messages of a backend while it works. Default: none.
	Logger *slog.Logger
}

// Library is a memory.Library together with what stands behind it. Its methods may be
// called at once from many goroutines, Close after all others.
type Library struct {
	*memory.Library
	Location *Location

	log          versionlog.Log
	blobs        *blobCaches
	witness      *witness.Witness // nil: commits are not noted on this machine
	conflictsDir string
	parts
}

// parts are what a backend has beside its log and its blobs; nil is nothing.
type parts struct {
	check       func(ctx context.Context, storeID string, report func(verify.Problem)) error
	checkShared func(ctx context.Context, report func(verify.Problem)) error
	reach       func(ctx context.Context, storeID string, toWrite bool) error
	caller      func(ctx context.Context) (string, error)
	credential  func() Credential
	checkFree   func(minFree *int64) error
	requests    func() []RequestCount
	collect     func(ctx context.Context, storeID string, opts *CollectOptions) (*Garbage, error)
	shrink      func(ctx context.Context) (int64, error)

	eraseOrphans func(ctx context.Context, storeID string) (int, error) // nil: a redaction does
	eraseLeft    func(ctx context.Context, storeID string, has func(text []byte) bool) (int, error)
	forgetBehind func(ctx context.Context, storeID string, versions []string, contents []cas.Digest, text string) ([]versionlog.Purged, error)
}

// Credential is what a server says of the credential that a library is used with.
type Credential = gateway.Credential

// RequestCount is how many requests of a kind were sent to a backend, and what they
// took.
type RequestCount struct {
	// Kind is the service in lower case, a space, and the operation as the service calls
	// it, such as "s3 GET".
	Kind  string
	Count uint64
	// Sent and Received are bytes of bodies, without heads.
	Sent, Received uint64
	// Took is how long it was until their replies began, or failed to come, all
	// together.
	Took time.Duration
}

// ProblemIndex is what Check finds: an index that is not what follows from the records.
const ProblemIndex verify.ProblemKind = "index"

func newLibrary(log versionlog.Log, blobs *blobCaches, p parts) *Library {
	return &Library{Library: memory.NewLibrary(log, blobs.open), log: log, blobs: blobs, parts: p}
}

// Close writes down what this machine is to remember of the stores, and releases the
// backend. No store of the library may be in use.
func (l *Library) Close() error {
	if l.witness != nil {
		l.witness.Close()
	}
	l.blobs.close()
	return l.log.Close()
}

// Conflicts returns the kept conflicts of a store on this machine, in a directory where
// mounts also have pending writes. If storeID is not the id of a store, the result has no
// conflicts.
func (l *Library) Conflicts(storeID string) *conflict.Store {
	if versionlog.CheckStoreID(storeID) != nil { // such as "../.."
		return conflict.New(filepath.Join(os.DevNull, "no store"))
	}
	return conflict.New(filepath.Join(l.conflictsDir, storeID))
}

// ImportsDir is where this machine notes which imports have begun, beside the conflicts of the
// stores.
func (l *Library) ImportsDir() string { return filepath.Join(l.conflictsDir, "imports") }

// Check looks for differences between the parts of a backend that package memory does
// not see, of one store: verify.Store does not find them. It calls report for
// each, and changes nothing. An error says that it could not look.
func (l *Library) Check(ctx context.Context, storeID string, report func(verify.Problem)) error {
	if l.parts.check == nil {
		return nil
	}
	return l.parts.check(ctx, storeID, report)
}

// CheckShared is Check for the data that all stores share.
func (l *Library) CheckShared(ctx context.Context, report func(verify.Problem)) error {
	if l.parts.checkShared == nil {
		return nil
	}
	return l.parts.checkShared(ctx, report)
}

// Reach makes sure that stores can be mounted: that their contents can be reached,
// which opening does not, and that those to be written take commits. Of those that are
// only read one is enough, for they share a place.
func (l *Library) Reach(ctx context.Context, stores []*memory.Store) error {
	if l.parts.reach == nil {
		return nil
	}
	for i, st := range stores {
		if i > 0 && st.ReadOnly() {
			continue
		}
		if err := l.parts.reach(ctx, st.Info().ID, !st.ReadOnly()); err != nil {
			return fmt.Errorf("open store %s: %w", st.Info().Slug, err)
		}
	}
	return nil
}

// Caller returns whose credentials the backend works with; "" where it takes none, or
// that cannot be told.
func (l *Library) Caller(ctx context.Context) (string, error) {
	if l.parts.caller == nil {
		return "", nil
	}
	return l.parts.caller(ctx)
}

// Credential returns the latest answer of the library's server about the credential: the
// zero value if the library has no server.
func (l *Library) Credential() (c Credential) {
	if l.credential != nil {
		c = l.credential()
	}
	return c
}

// CheckFree returns why nothing more may be stored on the library's disk, of which minFree
// bytes are a reserve; nil is its default, 64 MiB or an eighth of a smaller disk. The error
// is of kind errkind.NoSpace. If the library is not on a disk of this machine, the error is
// nil.
func (l *Library) CheckFree(minFree *int64) error {
	if l.parts.checkFree == nil {
		return nil
	}
	return l.parts.checkFree(minFree)
}

// Collect removes data of a store that is no longer needed: contents that no version has,
// conflicts that have expired, and files that killed processes have left, except pending
// writes that a mount will settle. Other processes may use the store meanwhile. Garbage
// counts the removals, also with an error. ErrServerCollects.
func (l *Library) Collect(ctx context.Context, storeID string, opts *CollectOptions) (*Garbage, error) {
	if err := l.MayCollect(); err != nil {
		return nil, err
	}
	found := &Garbage{}
	conflicts := l.Conflicts(storeID)
	now, _ := l.Clock()
	expired, err := conflicts.Expired(now)
	if err == nil && !opts.Keep {
		err = conflicts.Expire(now)
	}
	if err == nil && !opts.Keep {
		found.Temporary, err = spool.RemoveSettled(conflicts.Dir(), func(*spool.Entry) error { return nil })
	}
	if err != nil {
		return found, err
	}
	found.Conflicts = len(expired)
	more, err := l.collect(ctx, storeID, opts)
	if more != nil {
		found.Contents, found.Bytes, found.Temporary, found.Left = more.Contents, more.Bytes, found.Temporary+more.Temporary, more.Left
	}
	return found, err
}

// EraseOrphans returns what removes the contents of a store that no version has, as of a write that lost a
// race, however new, and returns how many there were. A writer that is about to commit one stores it again.
// Nil: a redaction does it.
func (l *Library) EraseOrphans() func(ctx context.Context, storeID string) (int, error) {
	return l.parts.eraseOrphans
}

// EraseLeft returns a function that removes contents that killed processes have left half
// written in files, and returns their number. Its error names a file that may be of a
// living process and has a text to erase. Nil: the library has no such files.
func (l *Library) EraseLeft() func(ctx context.Context, storeID string, has func(text []byte) bool) (int, error) {
	return l.parts.eraseLeft
}

// ForgetBehind returns what has the server of the library erase what its machine keeps of versions, and of
// texts with those contents or that have a text, beside log and contents. Nil: there is no server.
func (l *Library) ForgetBehind() func(ctx context.Context, storeID string, versions []string, contents []cas.Digest, text string) ([]versionlog.Purged, error) {
	return l.parts.forgetBehind
}

// ErrServerCollects says that Library.Collect is not for a client of a server.
var ErrServerCollects = errkind.New(errkind.Unsupported, "what nothing needs any more is removed where the server is, not through it")

// MayCollect returns why Collect is not for this library: ErrServerCollects; nil: it is.
func (l *Library) MayCollect() error {
	if l.collect == nil {
		return ErrServerCollects
	}
	return nil
}

// Shrink gives the disk back what the library's files do not need, and returns how many bytes
// that were.
func (l *Library) Shrink(ctx context.Context) (int64, error) {
	if l.shrink == nil {
		return 0, nil
	}
	return l.shrink(ctx)
}

// Requests counts what was asked of the backend since the library was opened, sorted by
// kind; nil where nothing is counted, because it costs nothing.
func (l *Library) Requests() []RequestCount {
	if l.parts.requests == nil {
		return nil
	}
	return l.parts.requests()
}

// CacheStats adds up what the caches of all stores did.
func (l *Library) CacheStats() cache.Stats { return l.blobs.stats() }

// Salvage finds a content in the cache on this disk, for memory.VerifyOptions. The content
// may be damaged.
func (l *Library) Salvage(d cas.Digest) ([]byte, bool) { return l.blobs.salvage(d) }
