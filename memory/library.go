// Package memory is mneme's domain: stores, memories, their paths and
// versions, and every rule for reading and writing them under compare-and-swap.
// It joins a version log with blob stores. The mount, the command line and
// every other surface go through this package; none of them touches a backend.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// The limits of a store's description.
const (
	MaxStoreName        = 255  // characters
	MaxStoreDescription = 1024 // characters

	// DefaultMaxMemoryBytes is the size of a memory, in bytes, that a store
	// allows unless it was made with another limit: 100 KiB.
	DefaultMaxMemoryBytes = 102400
	// LargestMaxMemoryBytes is the highest limit a store can have: memories
	// are held in RAM while they are verified and edited.
	LargestMaxMemoryBytes = 256 << 20
)

// Blobs gives the blob store that belongs to one memory store. Two calls with
// one id may return the same value.
type Blobs func(storeID string) (cas.Store, error)

// Library is the set of memory stores behind one version log.
// All methods may be called at once from many goroutines.
type Library struct {
	log     versionlog.Log
	blobs   Blobs
	witness Witness // nil: there is none
	mayGrow func() error
	ruling  ruling

	deletions deletions // by all who write
}

// Witness remembers outside the log how far histories have come. Its methods may be
// called at once from many goroutines.
type Witness interface {
	// Check is called before a store is opened for writing, updated or archived. If it
	// returns an error, such as versionlog.ErrRewritten, that is not done.
	Check(ctx context.Context, log versionlog.Log, s versionlog.Store) error
	// Saw is called with each commit of a checked store that was acknowledged or read
	// from the log. One commit may come twice, and commits out of order.
	Saw(storeID string, seq uint64, digest versionlog.Digest)
	// Forget is called after a store was deleted.
	Forget(storeID string)
}

// SetMayGrow has mayGrow asked for authors who have none of their own. It is called
// before any store is opened.
func (l *Library) SetMayGrow(mayGrow func() error) { l.mayGrow = mayGrow }

// SetWitness makes w the library's witness. It is called before any store is opened.
func (l *Library) SetWitness(w Witness) { l.witness = w }

// NewLibrary returns the library of a log and its blobs. It owns neither.
func NewLibrary(log versionlog.Log, blobs Blobs) *Library {
	return &Library{log: log, blobs: blobs, ruling: ruling{fresh: freshness{opened: time.Now()}}}
}

// StoreOptions describe a new store; the zero value is the default.
type StoreOptions struct {
	Description    string
	MaxMemoryBytes int64                  // 0 is DefaultMaxMemoryBytes
	Content        versionlog.ContentRule // "" is versionlog.ContentText
	Quota          versionlog.Quota
	Policy         versionlog.Policy
	Metadata       map[string]string // see versionlog.Store; at most 16 pairs
	// AnySlug takes another slug where that of the name is taken, or the name has none.
	AnySlug bool
	// Actor creates the store, and the first commit of its history names it. The zero Actor
	// makes a store whose history is empty, such as one to import into.
	Actor versionlog.Actor
}

// CreateStore makes a store with that name, whose slug must be free:
// versionlog.ErrExists, ErrBadName, ErrBadLimits.
func (l *Library) CreateStore(ctx context.Context, name string, opts *StoreOptions) (versionlog.Store, error) {
	if opts == nil {
		opts = &StoreOptions{}
	}
	id := versionlog.NewStoreID()
	slug, err := Slug(name)
	if opts.AnySlug && errors.Is(err, errNoSlug) {
		slug, err = "store-"+idTail(id), nil
	}
	if err == nil {
		err = checkNewStoreName(name)
	}
	if err != nil {
		return versionlog.Store{}, err
	}
	s := versionlog.Store{
		ID: id, Slug: slug, Name: name, Description: opts.Description,
		Limits:    versionlog.Limits{MaxMemoryBytes: opts.MaxMemoryBytes, Content: opts.Content},
		Quota:     opts.Quota,
		Policy:    opts.Policy,
		Metadata:  opts.Metadata,
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if s.Limits.MaxMemoryBytes == 0 {
		s.Limits.MaxMemoryBytes = DefaultMaxMemoryBytes
	}
	if s.Limits.Content == "" {
		s.Limits.Content = versionlog.ContentText
	}
	if err := checkStore(s); err != nil {
		return versionlog.Store{}, err
	}
	err = l.log.CreateStore(ctx, s)
	if opts.AnySlug && errors.Is(err, versionlog.ErrExists) {
		s.Slug = strings.TrimRight(s.Slug[:min(len(s.Slug), MaxStoreName-tailBytes)], "-") + "-" + idTail(id)
		err = l.log.CreateStore(ctx, s)
	}
	if err != nil {
		return versionlog.Store{}, err
	}
	if opts.Actor != (versionlog.Actor{}) {
		if err := l.happen(ctx, s, versionlog.StoreCreated(s), opts.Actor); err != nil {
			return s, fmt.Errorf("the store is there, but its history does not say who created it: %w", err)
		}
	}
	return l.log.Store(ctx, s.ID)
}

// idTail is the random end of an id, by which a slug is told from others.
func idTail(id string) string { return id[len(id)-8:] }

// tailBytes is how many bytes a slug has of an id. Stores of a mneme that did not cut the name have
// them besides.
const tailBytes = 9

// happen commits an event to a store, which the witness must know as it is.
func (l *Library) happen(ctx context.Context, s versionlog.Store, e *versionlog.Event, by versionlog.Actor) error {
	if l.witness != nil {
		if err := l.witness.Check(ctx, l.log, s); err != nil {
			return err
		}
	}
	c, err := l.log.Commit(ctx, s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true, Actor: by, Event: e})
	if err == nil && l.witness != nil {
		l.witness.Saw(s.ID, c.Seq, c.Digest)
	}
	return err
}

func checkStore(s versionlog.Store) error {
	if n := utf8.RuneCountInString(s.Name); n < 1 || n > MaxStoreName || !utf8.ValidString(s.Name) {
		return fmt.Errorf("%w: it has %d characters, want UTF-8 of 1 to %d", ErrBadName, n, MaxStoreName)
	}
	if err := versionlog.CheckMeta(s.Metadata); err != nil {
		return fmt.Errorf("%w: %w", ErrBadLimits, err)
	}
	if n := utf8.RuneCountInString(s.Description); n > MaxStoreDescription || !utf8.ValidString(s.Description) {
		return fmt.Errorf("%w: the description has %d characters, want UTF-8 of at most %d", ErrBadLimits, n, MaxStoreDescription)
	}
	if n := s.Limits.MaxMemoryBytes; n < 1 || n > LargestMaxMemoryBytes {
		return fmt.Errorf("%w: a memory of at most %d bytes; want 1 to %d", ErrBadLimits, n, int64(LargestMaxMemoryBytes))
	}
	if c := s.Limits.Content; c != versionlog.ContentText && c != versionlog.ContentAny {
		return fmt.Errorf("%w: content %q; want %q or %q", ErrBadLimits, c, versionlog.ContentText, versionlog.ContentAny)
	}
	if q := s.Quota; min(q.Bytes, q.Memories, q.PerHour) < 0 {
		return fmt.Errorf("%w: a quota below 0; 0 is any number", ErrBadLimits)
	}
	if err := s.Policy.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadLimits, err)
	}
	return nil
}

// UpdateStore changes the name, the description, the limits and other settings of a store;
// its slug stays. Stores that are open obey a new quota at once, and another size of
// memories when they are opened again.
// Errors: versionlog.ErrNotFound, versionlog.ErrArchived, ErrBadName, ErrBadLimits.
func (l *Library) UpdateStore(ctx context.Context, id string, u versionlog.StoreUpdate, by versionlog.Actor) (versionlog.Store, error) {
	before, err := l.log.Store(ctx, id)
	if err != nil {
		return before, err
	}
	wanted := before
	u.Apply(&wanted)
	if err := checkStore(wanted); err != nil {
		return before, err
	}
	if u.Name != nil {
		if err := checkNewStoreName(*u.Name); err != nil {
			return before, err
		}
	}
	if err := l.happen(ctx, before, versionlog.StoreUpdated(u), by); err != nil {
		return before, fmt.Errorf("update store %s: %w", before.Slug, err)
	}
	return l.log.Store(ctx, id)
}

// Slug checks a store's name and returns the name of its directory:
// lower case, every run of other characters than ASCII letters and digits one
// hyphen, none at the ends. ErrBadName.
func Slug(name string) (string, error) {
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxStoreName || !utf8.ValidString(name) {
		return "", fmt.Errorf("%w: it has %d characters, want UTF-8 of 1 to %d", ErrBadName, n, MaxStoreName)
	}
	for _, r := range name {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return "", fmt.Errorf("%w: %s has the character %U; control and format characters are not allowed", ErrBadName, quote.Name(name), r)
		}
	}
	slug := slugOf(name)
	if slug == "" {
		return "", fmt.Errorf("%w: %w: %s has no ASCII letter or digit to name a directory after; try a name such as %q", ErrBadName, errNoSlug, quote.Name(name), "team-notes")
	}
	return slug, nil
}

// slugOf is the slug that Slug makes from a text; "": none.
func slugOf(text string) string {
	var b strings.Builder
	gap := false
	for _, r := range text {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(unicode.ToLower(r))
		} else {
			gap = true
		}
	}
	return b.String()
}

// IsHidden reports whether a store holds mneme's own data in a library: its slug begins
// with a dot, which no name's does.
func IsHidden(s versionlog.Store) bool { return strings.HasPrefix(s.Slug, ".") }

// checkNewStoreName checks that a new store's name can be seen.
func checkNewStoreName(name string) error {
	for i, r := range name {
		if !quote.Shown(name, i) {
			return fmt.Errorf("%w: %s has the character %U; a name is made of characters that can be seen", ErrBadName, quote.Name(name), r)
		}
	}
	return nil
}

// FindStore returns the store that a person's word means: its id, its slug, or
// its name; hidden ones are not found. versionlog.ErrNotFound, ErrBadName.
func (l *Library) FindStore(ctx context.Context, ref string) (versionlog.Store, error) {
	if strings.HasPrefix(ref, "memstore_") {
		s, err := l.log.Store(ctx, ref)
		if err == nil && IsHidden(s) {
			err = versionlog.ErrNotFound
		}
		return s, findError(ref, err)
	}
	slug, err := Slug(ref)
	if err != nil {
		// No store was made with it, but one may have that name now.
		s, called := l.storeCalled(ctx, ref)
		if errors.Is(called, versionlog.ErrNotFound) {
			return versionlog.Store{}, err
		}
		return s, findError(ref, called)
	}
	s, err := l.log.StoreNamed(ctx, slug)
	if err == nil && ref != s.Slug && ref != s.Name {
		err = versionlog.ErrNotFound
	}
	if errors.Is(err, versionlog.ErrNotFound) && ref != slug {
		s, err = l.storeCalled(ctx, ref)
	}
	return s, findError(ref, err)
}

// storeCalled returns the one store of a name, which it need not have been made with.
func (l *Library) storeCalled(ctx context.Context, name string) (found versionlog.Store, err error) {
	for s, err := range l.log.Stores(ctx, "") {
		if err != nil {
			return s, err
		}
		if s.Name != name || IsHidden(s) {
			continue
		}
		if found.ID != "" {
			return s, fmt.Errorf("%w: it is the name of both %s and %s; use one of these instead", ErrBadName, found.Slug, s.Slug)
		}
		found = s
	}
	if found.ID == "" {
		return found, versionlog.ErrNotFound
	}
	return found, nil
}

func findError(ref string, err error) error {
	if errors.Is(err, versionlog.ErrNotFound) {
		return fmt.Errorf("store %s: %w", quote.Name(ref), ErrNoStore)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", quote.Name(ref), err)
	}
	return nil
}

// Stores returns all stores but hidden ones, ordered by slug, archived ones too.
func (l *Library) Stores(ctx context.Context) ([]versionlog.Store, error) {
	all, err := l.AllStores(ctx)
	return slices.DeleteFunc(all, IsHidden), err
}

// AllStores returns hidden stores, too.
func (l *Library) AllStores(ctx context.Context) ([]versionlog.Store, error) {
	return versionlog.AllStores(ctx, l.log)
}

// ArchiveStore makes a store permanently read-only, except for removals through the
// library. versionlog.ErrNotFound.
func (l *Library) ArchiveStore(ctx context.Context, id string, by versionlog.Actor) error {
	s, err := l.log.Store(ctx, id)
	if err != nil {
		return err
	}
	if err := l.happen(ctx, s, versionlog.StoreArchived(), by); err != nil {
		return fmt.Errorf("archive store %s: %w", s.Slug, err)
	}
	return nil
}

// DeleteStore removes a store, its history and its blobs. When it fails
// between the two, blobs are left that nothing refers to.
func (l *Library) DeleteStore(ctx context.Context, id string) error {
	if err := l.log.DeleteStore(ctx, id); err != nil {
		return err
	}
	if l.witness != nil {
		l.witness.Forget(id)
	}
	blobs, err := l.blobs(id)
	if err != nil {
		return err
	}
	lister, canList := blobs.(cas.Lister)
	deleter, canDelete := blobs.(cas.Deleter)
	if !canList || !canDelete {
		return nil
	}
	for d, err := range lister.List(ctx) {
		if errors.Is(err, errors.ErrUnsupported) { // by what is below a cache
			return nil
		}
		if err != nil {
			return fmt.Errorf("list blobs of deleted store: %w", err)
		}
		if err := deleter.Delete(ctx, d); err != nil {
			return fmt.Errorf("delete blob %v of deleted store: %w", d, err)
		}
	}
	return nil
}

// Author is in whose name a store is written.
type Author struct {
	Actor   versionlog.Actor
	Session string // "" outside a session
	// Quota bounds the additions to each store through one Store. Commits under way at once may
	// pass it together, and one whose reply was lost is not counted.
	Quota versionlog.Quota
	// MayGrow is called before every write except a deletion; its error, which says why no room
	// is left, ends the commit. Nil: that of the library.
	MayGrow func() error
	// MayWrite reports whether the backend accepts writes to a store now, as far as is known.
	// Nil: it does.
	MayWrite func(storeID string) bool
}

// IsAgent reports whether a session writes, with its own key or with that of others.
func IsAgent(a versionlog.Actor, session string) bool {
	return a.Kind == versionlog.ActorSession || session != "" && a.Kind != versionlog.ActorUser
}

// SessionAuthor returns the author of a session's writes.
func SessionAuthor(id string) *Author {
	return &Author{Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: id}, Session: id}
}

// Open returns the store of an id for reading, and for writing in the name of
// author unless author is nil. For writing, it returns versionlog.ErrRewritten when
// the history lacks a commit that the witness has seen.
func (l *Library) Open(ctx context.Context, id string, author *Author) (*Store, error) {
	info, err := l.log.Store(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", id, err)
	}
	blobs, err := l.blobs(id)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", info.Slug, err)
	}
	s := &Store{info: info, log: l.log, can: l.log.Capabilities(), blobs: blobs, author: author, deletions: &l.deletions}
	s.hasQuota.Store(info.Quota != versionlog.Quota{})
	if author != nil {
		if s.mayGrow = author.MayGrow; s.mayGrow == nil {
			s.mayGrow = l.mayGrow
		}
	}
	if l.witness != nil && author != nil {
		if err := l.witness.Check(ctx, l.log, info); err != nil {
			return nil, fmt.Errorf("open store %s: %w", info.Slug, err)
		}
		s.witness = l.witness
	}
	return s, nil
}

// FindVersion returns a version by its id, and its store, wherever it is.
func (l *Library) FindVersion(ctx context.Context, id string) (versionlog.Store, versionlog.Version, error) {
	if _, _, err := versionlog.LocateVersion(id); err != nil {
		return versionlog.Store{}, versionlog.Version{}, fmt.Errorf("%w: %w", ErrBadVersion, err)
	}
	for s, err := range l.log.Stores(ctx, "") {
		if err != nil {
			return versionlog.Store{}, versionlog.Version{}, err
		}
		v, err := l.log.Version(ctx, s.ID, id)
		if err == nil {
			return s, v, nil
		}
		if !errors.Is(err, versionlog.ErrNotFound) {
			return s, v, err
		}
	}
	return versionlog.Store{}, versionlog.Version{}, fmt.Errorf("version %s: %w in any store", id, versionlog.ErrNotFound)
}
