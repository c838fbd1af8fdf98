package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mneme/cache"
	"mneme/cas"
	"mneme/internal/awsconf"
	"mneme/internal/awssetup"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/versionlog"
)

// urlVariable names the environment variable that stands in for --url.
const urlVariable = "MNEME_URL"

// errNoStores says that nothing was ever stored where the URL points.
var errNoStores error = noStores{}

// noStores is a versionlog.ErrNotFound that does not say so, too.
type noStores struct{}

func (noStores) Error() string {
	return "no memory stores there yet; `mneme store create NAME` makes the first"
}

func (noStores) Unwrap() error { return versionlog.ErrNotFound }

// allowNothing passes over errNoStores where no URL was given: before the first
// store is made, there is nothing at the default place. A URL that points
// nowhere is a mistake.
func (a *app) allowNothing(err error) error {
	if a.url == nil && errors.Is(err, errNoStores) {
		return nil
	}
	return err
}

// openOptions say what a command needs of the library.
type openOptions struct {
	readOnly bool
	create   bool          // make the embedded store if it is missing
	refresh  time.Duration // how late another process's commit may be seen; 0 is the backend's default
	direct   bool          // read blobs from the store itself, past every cache
	cache    cacheOptions
}

// cacheOptions say where and how much of a remote store is kept on this disk.
type cacheOptions struct {
	dir  string    // "" is the user's own
	size *byteSize // of the blobs; nil is the default, 0 none
}

var (
	reading = openOptions{readOnly: true}
	writing = openOptions{}
)

// location is where a URL points. Each backend has one, in a file of its own.
type location interface {
	fmt.Stringer // the URL
	// open opens what is there. An error names the location.
	open(ctx context.Context, opts openOptions) (*library, error)
	// opened reports whether a process of this machine has opened what is there.
	// Where that cannot be seen, it has not.
	opened(pid int) bool
	// remote reports whether counting what is there takes requests.
	remote() bool
	// rebuild makes the index of a store, or of all, anew from the records.
	rebuild(ctx context.Context, store string, progress func(step string, done, total int)) error
	// losses tells what was acknowledged and is not there, as far as the backend
	// itself remembers. With accept it is not missed any more, and kept names a file
	// which may hold what is lost.
	losses(ctx context.Context, accept bool) (lost []loss, kept string, err error)
	// backup copies stores, or all where refs are none, into the directory dir.
	backup(ctx context.Context, dir string, refs []string, progress func(step string, done, total int)) (*backupResult, error)
	// setup makes there what is missing, and tells of each step. It reports
	// whether there are stores that the index has lost.
	setup(ctx context.Context, opts setupOptions, report func(awssetup.Step)) (orphaned bool, err error)
	// plan says what setup would make and who needs which permissions, and
	// touches nothing. Nil: there is nothing to set up.
	plan(region, owner string) *awssetup.Plan
}

// setupOptions say what setup may take for granted.
type setupOptions struct {
	move  bool   // the index becomes that of this bucket though it was another's
	owner string // the account of the bucket; "" is the one that was named before, or that of the index
}

// loss is something of a store that is lost.
type loss struct {
	store versionlog.Store // its slug is "" where it is lost as a whole
	what  string
}

// library is a memory.Library together with what stands behind it.
type library struct {
	*memory.Library
	log   versionlog.Log
	blobs *blobCaches

	witness *advisedWitness // nil: nothing is remembered of what is written

	doIndex string // what a person can do about an index that is not what follows from the records

	url          string // without credentials
	conflictsDir string // has a directory for the conflicts of each store

	// check looks for differences between the parts of a backend that package
	// memory does not see. Nil: there are none.
	check func(ctx context.Context, storeID string, report func(memory.Problem)) error
	// checkShared does so for what all stores share. Nil: nothing.
	checkShared func(ctx context.Context, report func(memory.Problem)) error
	// reach makes sure that the blobs of a store can be reached, which opening does
	// not, and of one to be written that it takes commits. Nil: they are where the log
	// is, and it says so itself.
	reach func(ctx context.Context, storeID string, toWrite bool) error
	// caller returns whose credentials the backend works with. Nil: it has none.
	caller func(ctx context.Context) (string, error)
	// checkFree says why nothing more is to be stored on the disk that the library is
	// on, of which minFree is a reserve, and nil its default. Nil: it is on none.
	checkFree func(minFree *byteSize) error
	// requests counts what was asked of the backend since the library was opened.
	// Nil: nothing that costs.
	requests func() []awsconf.RequestCount
}

// openLibrary opens the library of a URL; nil is the default one.
func openLibrary(ctx context.Context, rawURL *string, opts openOptions) (*library, error) {
	at, err := locate(rawURL)
	if err != nil {
		return nil, err
	}
	conflicts, err := conflictsDirOf(at)
	if err != nil {
		return nil, err
	}
	lib, err := at.open(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := safepath.Check(conflicts); err != nil && !opts.readOnly {
		return nil, errors.Join(adviseConflicts(err), lib.Close())
	}
	lib.url, lib.conflictsDir = at.String(), conflicts
	if w := newWitness(at); w != nil {
		lib.witness = &advisedWitness{w, lib}
		lib.SetWitness(lib.witness)
	}
	return lib, nil
}

// adviseConflicts is adviseOwner for the directory of conflicts.
func adviseConflicts(err error) error {
	return fmt.Errorf("conflicts: %w", adviseOwner(err, "$"+conflictsVariable+" names another directory"))
}

// adviseOwner adds to an error about what others may change how to go on.
func adviseOwner(err error, elsewhere string) error {
	if errors.Is(err, safepath.ErrUntrusted) {
		err = fmt.Errorf("%w; run mneme as that user, or use a directory that is root's alone, as all above it are; %s", err, elsewhere)
	}
	return err
}

// statusLines are lines of .mneme/status: where the stores are, and what was
// asked of a backend that costs.
func (l *library) statusLines() []string {
	lines := []string{statusURL + ": " + l.url}
	if l.requests != nil {
		lines = append(lines, usageLines(l.requests(), l.blobs.stats())...)
	}
	return lines
}

// reachAll makes sure that stores can be mounted. Of those that are only read one is
// enough: they share a bucket.
func (l *library) reachAll(ctx context.Context, stores []*memory.Store) error {
	if l.reach == nil {
		return nil
	}
	for i, st := range stores {
		if i > 0 && st.ReadOnly() {
			continue
		}
		if err := l.reach(ctx, st.Info().ID, !st.ReadOnly()); err != nil {
			return fmt.Errorf("open store %s: %w", st.Info().Slug, err)
		}
	}
	return nil
}

func newLibrary(log versionlog.Log, blobs *blobCaches) *library {
	return &library{Library: memory.NewLibrary(log, blobs.open), log: log, blobs: blobs}
}

// Close releases the backends.
func (l *library) Close() error {
	if l.witness != nil {
		l.witness.Close()
	}
	l.blobs.close()
	return l.log.Close()
}

// problemIndex is what check finds: an index that is not what follows from the
// records.
const problemIndex memory.ProblemKind = "index"

// blobCaches are the blob stores of a library, each opened once.
type blobCaches struct {
	backend func(storeID string) (cas.Store, error)
	direct  bool           // no caches
	options *cache.Options // of each

	mu     sync.Mutex // guards caches
	caches map[string]*cache.Cache
}

func (b *blobCaches) open(storeID string) (cas.Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.caches[storeID]; ok {
		return c, nil
	}
	blobs, err := b.backend(storeID)
	if err != nil || b.direct {
		return blobs, err
	}
	c, err := cache.New(blobs, b.options)
	if err != nil {
		return nil, err
	}
	if b.caches == nil {
		b.caches = map[string]*cache.Cache{}
	}
	b.caches[storeID] = c
	return c, nil
}

// salvage finds a blob in the disk tier of the caches.
func (b *blobCaches) salvage(d cas.Digest) ([]byte, bool) {
	if b.options == nil {
		return nil, false
	}
	return cache.Lookup(b.options.Dir, d)
}

// stats adds up what the caches did.
func (b *blobCaches) stats() cache.Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum cache.Stats
	for _, c := range b.caches {
		s := c.Stats()
		sum.MemoryHits += s.MemoryHits
		sum.DiskHits += s.DiskHits
		sum.Misses += s.Misses
		sum.FetchedBytes += s.FetchedBytes
		sum.Corrupt += s.Corrupt
		sum.Evictions += s.Evictions
		sum.DiskErrors += s.DiskErrors
		sum.MemoryBytes += s.MemoryBytes
		sum.DiskBytes = max(sum.DiskBytes, s.DiskBytes) // they share the directory
	}
	return sum
}

func (b *blobCaches) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.caches {
		c.Close()
	}
}

// locate reads a URL; nil is the default one.
func locate(raw *string) (location, error) {
	if raw == nil {
		data, err := xdgDir("XDG_DATA_HOME", ".local/share")
		return embedded{filepath.Join(data, "mneme")}, err
	}
	if *raw == "" {
		return nil, wrongURL(*raw, "it is empty")
	}
	u, err := url.Parse(*raw)
	switch {
	case err != nil:
		return nil, wrongURL(*raw, "it is no URL")
	case u.User != nil: // it may hold a password, so it is not repeated
		return nil, wrongURL(u.Scheme+"://…@"+u.Host, "it has a user name or credentials in it, which come from elsewhere")
	case u.Scheme == "aws":
		return locateAWS(*raw, u)
	case u.Scheme == "file":
		return locateEmbedded(*raw, u)
	case u.Scheme == "" && filepath.IsAbs(*raw):
		return nil, usagef("store URL %q: it has no scheme; want file://%s", *raw, *raw)
	case u.Scheme == "":
		return nil, wrongURL(*raw, "it has no scheme")
	}
	return nil, wrongURL(*raw, fmt.Sprintf("there is no backend %q", u.Scheme))
}

func wrongURL(raw, why string) error {
	return usagef("store URL %q: %s; want file:///absolute/path, aws://BUCKET?table=TABLE, or none for your own embedded store", raw, why)
}

// xdgDir returns a base directory of the XDG specification, which says to
// ignore relative paths.
func xdgDir(variable, below string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", usagef("$HOME is not set, so there is no default place; set it, or $%s, or give --url", variable)
	}
	return filepath.Join(home, below), nil
}
