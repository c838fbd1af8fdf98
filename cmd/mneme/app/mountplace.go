package app

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mneme/daemon"
)

// LooksLikePath reports whether a person means a path of this machine, not STORE:/path. No
// store's name begins so.
func LooksLikePath(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") ||
		text == "." || text == ".."
}

// placeInMount returns the place that a path in a mount of mneme shows. The mount names its
// stores. The path need not exist.
func placeInMount(text string) (Place, error) {
	abs, err := filepath.Abs(text)
	if err != nil {
		return Place{}, err
	}
	mounts, err := daemon.AllMounts()
	if err != nil {
		return Place{}, err
	}
	m, found := daemon.Above(mounts, abs)
	if !found { // perhaps through a symbolic link
		if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(parent, filepath.Base(abs))
			m, found = daemon.Above(mounts, abs)
		}
	}
	if !found {
		return Place{}, Usagef("%q is not in a mount of mneme; want STORE:/path such as notes:/todo.md, or a path in a mount (`mneme status`)", text)
	}
	if uid := os.Geteuid(); m.UID != 0 && m.UID != uid {
		return Place{}, Usagef("%q is in a mount of user %d, who is not to say where your command goes; want STORE:/path", text, m.UID)
	}
	inside := path.Join(m.Root, strings.TrimPrefix(abs, m.Dir))
	said := m.Statuses(mounts)
	if len(said) == 1 && said[0].Get(daemon.StatusFlat) != "" {
		return newMountedPlace(said[0], inside), nil
	}
	slug, below, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	if slug == "" {
		return Place{}, Usagef("%q is a mount of whole stores; want one of them, such as %s", text, filepath.Join(m.Dir, "notes"))
	}
	for _, s := range said {
		if s.Get(daemon.StatusStore) == slug {
			return newMountedPlace(s, "/"+below), nil
		}
	}
	if len(said) == 0 {
		return Place{}, fmt.Errorf("%q: the mount does not say which store it is, or does not answer; want STORE:/path", text)
	}
	return Place{}, fmt.Errorf("%q: there is no store %q in that mount", text, slug)
}

// newMountedPlace returns the place of a path in a store of a mount.
func newMountedPlace(s daemon.Status, path string) Place {
	return Place{Store: s.Get(daemon.StatusStore), id: s.Get(daemon.StatusID), URL: s.Get(daemon.StatusURL), AsOf: s.Get(daemon.StatusAsOf), Path: path}
}
