package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/term"
	"mneme/errkind"
	"mneme/history"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// Place is a checked STORE:/path, or a path in a mount, that a person wrote.
type Place struct {
	Store, Path string

	// These are what a mount says of itself: the store's id, and its URL. Else "".
	id, URL string

	AsOf string // the commit after which the mount shows the store; "": not a mount of the past
}

func (p Place) String() string { return p.Store + ":" + p.Path }

// Word is the place as a word for a shell.
func (p Place) Word() string { return term.ShellWord(p.String()) }

// ExplainMissing adds to a not-found error what exists at the path, or did.
func ExplainMissing(ctx context.Context, st *memory.Store, path string, err error) error {
	if !errors.Is(err, versionlog.ErrNotFound) {
		return err
	}
	store := st.Info().Slug
	at := Place{Store: store, Path: path}
	for v, headsErr := range st.Tree(ctx, path) {
		if headsErr == nil && v.Path != path {
			return fmt.Errorf("%s is a directory, not a memory: %w; `mneme ls %s` lists it", at, versionlog.ErrNotFound, at.Word())
		}
		return err
	}
	for _, historyErr := range history.Versions(ctx, st, path) {
		if historyErr == nil {
			return fmt.Errorf("%s: %w, but it was there; `mneme log %s` shows its versions", at, versionlog.ErrNotFound, at.Word())
		}
		break
	}
	return fmt.Errorf("%s: %w; `mneme ls %s` lists what is there, `mneme log %[3]s` what was", at, versionlog.ErrNotFound, store)
}

// IsDir reports whether memories exist below a path.
func IsDir(ctx context.Context, st *memory.Store, path string) bool {
	for v, err := range st.Tree(ctx, path) {
		return err == nil && v.Path != path
	}
	return false
}

// MeansDir reports whether a place with a path means a directory: because it ends in a
// slash, or because no memory ever existed there but something below does.
func MeansDir(ctx context.Context, st *memory.Store, place, path string) (bool, error) {
	if path == "/" {
		return true, nil
	}
	if !strings.HasSuffix(place, "/") {
		for _, err := range history.Versions(ctx, st, path) {
			if !errors.Is(err, versionlog.ErrNotFound) {
				return false, err
			}
		}
	}
	for _, err := range st.Tree(ctx, path) {
		return err == nil, err
	}
	for _, err := range history.LogDir(ctx, st, path, history.Query{}) {
		return err == nil, err
	}
	return false, nil
}

// WithPlace opens the store of a place, and closes it after do. A place in a mount of the
// past is read-only, and shows that point.
func (a *App) WithPlace(ctx context.Context, p Place, opts backend.Options, do func(*memory.Store) error) error {
	a.Follow(p)
	if p.AsOf != "" {
		if !opts.ReadOnly {
			return p.ToChange()
		}
		return a.withPast(ctx, p, do)
	}
	return a.WithStore(ctx, p.Ref(), opts, do)
}

// WithSessionAt is WithSession for the store of a place.
func (a *App) WithSessionAt(ctx context.Context, p Place, do func(*memory.Store, *session.Session) error) error {
	if err := p.ToChange(); err != nil {
		return err
	}
	a.Follow(p)
	return a.WithSession(ctx, p.Ref(), do)
}

// Follow makes the command use the library of a place in a mount.
func (a *App) Follow(p Place) {
	if p.URL != "" {
		a.URL = &p.URL
	}
}

// errPastPlace says that a place is in a mount of the past, which cannot be changed.
var errPastPlace = errkind.New(errkind.ReadOnly, "the past cannot be changed")

// ToChange refuses a place in a mount of the past.
func (p Place) ToChange() error {
	if p.AsOf == "" {
		return nil
	}
	return fmt.Errorf("%w: the mount shows store %s as it was after commit %s; in the store of today, at %s, the place is %s", errPastPlace, p.Store, p.AsOf, p.URL, p.Word())
}

// withPast opens the store of a place in a mount of the past as the mount shows it, and
// closes it after do.
func (a *App) withPast(ctx context.Context, p Place, do func(*memory.Store) error) error {
	seq, err := strconv.ParseUint(p.AsOf, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: the mount says that it shows the store after commit %q, which is no sequence number; want STORE:/path", p, p.AsOf)
	}
	return a.WithLibrary(ctx, Reading, func(lib *backend.Library) error {
		info, err := lib.FindStore(ctx, p.Ref())
		if err != nil {
			return err
		}
		st, err := lib.OpenAt(ctx, info.ID, seq)
		if err != nil {
			return err
		}
		return do(st)
	})
}

// Ref is the reference of the store for FindStore.
func (p Place) Ref() string {
	if p.id != "" {
		return p.id
	}
	return p.Store
}

// versionSuffix is a path with @ and a version.
var versionSuffix = Pattern(`^(.+)@([0-9]+|memver_[0-9a-z]{26})$`)

// SplitVersion splits a version from a path, as diff writes it: /todo.md@7. If a memory
// with the whole name exists or did, the name is not split.
func SplitVersion(ctx context.Context, st *memory.Store, path string) (memoryPath, version string, err error) {
	m := versionSuffix().FindStringSubmatch(path)
	if m == nil {
		return path, "", nil
	}
	for _, err := range history.Versions(ctx, st, path) {
		if errors.Is(err, versionlog.ErrNotFound) {
			break
		}
		return path, "", err
	}
	return m[1], m[2], nil
}

// OneVersion is SplitVersion for a command that may also have a separate version.
func OneVersion(ctx context.Context, st *memory.Store, path, given string) (memoryPath, version string, err error) {
	memoryPath, version, err = SplitVersion(ctx, st, path)
	if err == nil && version != "" && given != "" {
		err = Usagef("%s:%s has a version, and %s is another; want one", st.Info().Slug, path, given)
	}
	if version == "" {
		version = given
	}
	return memoryPath, version, err
}

// DefaultMountDir is where agents look for their memory.
const DefaultMountDir = "/mnt/memory"
