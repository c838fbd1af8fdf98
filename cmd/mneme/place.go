package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/term"
	"mneme/errkind"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// place is what a person writes as STORE:/path, or as a path in a mount, checked.
type place struct {
	store, path string

	// What a mount says of itself: the store's id, and where it is. Else "".
	id, url string

	asOf string // the commit after which the mount shows the store; "" if that is not the past
}

func (p place) String() string { return p.store + ":" + p.path }

// word is the place as a shell takes it.
func (p place) word() string { return term.ShellWord(p.String()) }

// parseMemory reads the place of a memory.
func parseMemory(text string) (place, error) {
	p, err := splitPlace(text)
	if err != nil {
		return p, err
	}
	if p.path == "" || p.id != "" && p.path == "/" {
		store, version, _ := strings.Cut(p.store, "@")
		if version != "" {
			version = "@" + version
		}
		return p, usagef("%q names a store, want a memory in it such as %s:/todo.md%s%s", text, store, version, fileHint(text))
	}
	p.path, err = memory.ParsePath(p.path)
	return p, err
}

// parseDir reads the place of a directory or of a memory; STORE alone is its
// root.
func parseDir(text string) (place, error) {
	p, err := splitPlace(text)
	if err != nil {
		return p, err
	}
	p.path, err = memory.ParsePrefix(p.path)
	return p, err
}

func splitPlace(text string) (place, error) {
	if looksLikePath(text) {
		return placeInMount(text)
	}
	if text == "" || strings.ContainsRune(".~", rune(text[0])) {
		return place{}, usagef("%q is not a place in a store; want STORE:/path such as notes:/todo.md", text)
	}
	store, path, hasPath := strings.Cut(text, ":")
	switch {
	case hasPath && strings.HasPrefix(path, "//"):
		return place{}, usagef("%q is a URL, and not a place in a store; give the URL by --url or MNEME_URL, and want STORE:/path such as notes:/todo.md", text)
	case store == "":
		return place{}, usagef("%q names no store; want STORE:/path such as notes%s", text, text)
	case !hasPath && strings.Contains(store, "/"):
		name, rest, _ := strings.Cut(store, "/")
		return place{}, usagef("%q has no colon after the store; want %s:/%s%s", text, name, rest, fileHint(text))
	case hasPath && !strings.HasPrefix(path, "/"):
		return place{}, usagef("%q has no / after the colon; want %s:/%s", text, store, path)
	}
	return place{store: store, path: path}, nil
}

// fileHint is for a text that is no place, but might be a file in a mount.
func fileHint(text string) string {
	if _, err := os.Lstat(text); err != nil {
		return ""
	}
	return ", or ./" + text + " for the file"
}

// explainMissing adds to a not-found error what is at the path, or was.
func explainMissing(ctx context.Context, st *memory.Store, path string, err error) error {
	if !errors.Is(err, versionlog.ErrNotFound) {
		return err
	}
	store := st.Info().Slug
	at := place{store: store, path: path}
	for v, headsErr := range st.Tree(ctx, path) {
		if headsErr == nil && v.Path != path {
			return fmt.Errorf("%s is a directory, not a memory: %w; `mneme ls %s` lists it", at, versionlog.ErrNotFound, at.word())
		}
		return err
	}
	for _, historyErr := range st.History(ctx, path) {
		if historyErr == nil {
			return fmt.Errorf("%s: %w, but it was there; `mneme log %s` shows its versions", at, versionlog.ErrNotFound, at.word())
		}
		break
	}
	return fmt.Errorf("%s: %w; `mneme ls %s` lists what is there, `mneme log %[3]s` what was", at, versionlog.ErrNotFound, store)
}

// isDir reports whether memories lie below a path.
func isDir(ctx context.Context, st *memory.Store, path string) bool {
	for v, err := range st.Tree(ctx, path) {
		return err == nil && v.Path != path
	}
	return false
}

// meansDir reports whether a place, of which path is the path, means a directory: since it ends in
// a slash, or since no memory ever was there, but something below.
func meansDir(ctx context.Context, st *memory.Store, place, path string) (bool, error) {
	if path == "/" {
		return true, nil
	}
	if !strings.HasSuffix(place, "/") {
		for _, err := range st.History(ctx, path) {
			if !errors.Is(err, versionlog.ErrNotFound) {
				return false, err
			}
		}
	}
	for _, err := range st.Tree(ctx, path) {
		return err == nil, err
	}
	for _, err := range st.LogDir(ctx, path, memory.Query{}) {
		return err == nil, err
	}
	return false, nil
}

// withPlace opens the store of a place for the time of do. A place in a mount of the past can only be
// read, and is what it was then.
func (a *app) withPlace(ctx context.Context, p place, opts backend.Options, do func(*memory.Store) error) error {
	a.follow(p)
	if p.asOf != "" {
		if !opts.ReadOnly {
			return p.toChange()
		}
		return a.withPast(ctx, p, do)
	}
	return a.withStore(ctx, p.ref(), opts, do)
}

// withSessionAt is withSession for the store of a place.
func (a *app) withSessionAt(ctx context.Context, p place, do func(*memory.Store, *session.Session) error) error {
	if err := p.toChange(); err != nil {
		return err
	}
	a.follow(p)
	return a.withSession(ctx, p.ref(), do)
}

// follow makes the stores that the mount of a place shows those of the command.
func (a *app) follow(p place) {
	if p.url != "" {
		a.url = &p.url
	}
}

// errPastPlace says that a place is seen in a mount of the past, in which nothing is changed.
var errPastPlace = errkind.New(errkind.ReadOnly, "the past cannot be changed")

// toChange refuses a place that is seen in a mount of the past.
func (p place) toChange() error {
	if p.asOf == "" {
		return nil
	}
	return fmt.Errorf("%w: the mount shows store %s as it was after commit %s; in the store of today, at %s, the place is %s", errPastPlace, p.store, p.asOf, p.url, p.word())
}

// withPast opens the store of a place that is seen in a mount of the past for the time of do, as the
// mount shows it.
func (a *app) withPast(ctx context.Context, p place, do func(*memory.Store) error) error {
	seq, err := strconv.ParseUint(p.asOf, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: the mount says that it shows the store after commit %q, which is no sequence number; want STORE:/path", p, p.asOf)
	}
	return a.withLibrary(ctx, reading, func(lib *backend.Library) error {
		info, err := lib.FindStore(ctx, p.ref())
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

// ref is the store for FindStore.
func (p place) ref() string {
	if p.id != "" {
		return p.id
	}
	return p.store
}

// versionSuffix is what may follow the path of a memory: @ and a version.
var versionSuffix = pattern(`^(.+)@([0-9]+|memver_[0-9a-z]{26})$`)

// splitVersion takes the version off a path, as diff writes it: /todo.md@7. A
// memory whose name ends so, now or earlier, is meant first.
func splitVersion(ctx context.Context, st *memory.Store, path string) (memoryPath, version string, err error) {
	m := versionSuffix().FindStringSubmatch(path)
	if m == nil {
		return path, "", nil
	}
	for _, err := range st.History(ctx, path) {
		if errors.Is(err, versionlog.ErrNotFound) {
			break
		}
		return path, "", err
	}
	return m[1], m[2], nil
}

// oneVersion is splitVersion for a command that may have been given a version
// by itself, too.
func oneVersion(ctx context.Context, st *memory.Store, path, given string) (memoryPath, version string, err error) {
	memoryPath, version, err = splitVersion(ctx, st, path)
	if err == nil && version != "" && given != "" {
		err = usagef("%s:%s has a version, and %s is another; want one", st.Info().Slug, path, given)
	}
	if version == "" {
		version = given
	}
	return memoryPath, version, err
}
