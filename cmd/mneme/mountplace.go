package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mneme/daemon"
)

// looksLikePath reports whether a person means a path of this machine, and not
// STORE:/path. No store's name begins so.
func looksLikePath(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") ||
		text == "." || text == ".."
}

// placeInMount returns the place that a path inside a mount of mneme shows: the
// mount says of which stores. Nothing need be there.
func placeInMount(text string) (place, error) {
	abs, err := filepath.Abs(text)
	if err != nil {
		return place{}, err
	}
	mounts, err := daemon.AllMounts()
	if err != nil {
		return place{}, err
	}
	m, found := daemon.Above(mounts, abs)
	if !found { // perhaps by way of a symbolic link
		if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(parent, filepath.Base(abs))
			m, found = daemon.Above(mounts, abs)
		}
	}
	if !found {
		return place{}, usagef("%q is not in a mount of mneme; want STORE:/path such as notes:/todo.md, or a path in a mount (`mneme status`)", text)
	}
	if uid := os.Geteuid(); m.UID != 0 && m.UID != uid {
		return place{}, usagef("%q is in a mount of user %d, who is not to say where your command goes; want STORE:/path", text, m.UID)
	}
	inside := path.Join(m.Root, strings.TrimPrefix(abs, m.Dir))
	said := m.Statuses(mounts)
	if len(said) == 1 && said[0].Get(daemon.StatusFlat) != "" {
		return newMountedPlace(said[0], inside), nil
	}
	slug, below, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	if slug == "" {
		return place{}, usagef("%q is a mount of whole stores; want one of them, such as %s", text, filepath.Join(m.Dir, "notes"))
	}
	for _, s := range said {
		if s.Get(daemon.StatusStore) == slug {
			return newMountedPlace(s, "/"+below), nil
		}
	}
	if len(said) == 0 {
		return place{}, fmt.Errorf("%q: the mount does not say which store it is, or does not answer; want STORE:/path", text)
	}
	return place{}, fmt.Errorf("%q: there is no store %q in that mount", text, slug)
}

// newMountedPlace returns the place of a path in a store of a mount.
func newMountedPlace(s daemon.Status, path string) place {
	return place{store: s.Get(daemon.StatusStore), id: s.Get(daemon.StatusID), url: s.Get(daemon.StatusURL), asOf: s.Get(daemon.StatusAsOf), path: path}
}
