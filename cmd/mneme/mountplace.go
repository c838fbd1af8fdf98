package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
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
	mounts, err := allMounts()
	if err != nil {
		return place{}, err
	}
	m, found := mountAbove(mounts, abs)
	if !found { // perhaps by way of a symbolic link
		if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(parent, filepath.Base(abs))
			m, found = mountAbove(mounts, abs)
		}
	}
	if !found {
		return place{}, usagef("%q is not in a mount of mneme; want STORE:/path such as notes:/todo.md, or a path in a mount (`mneme status`)", text)
	}
	if uid := os.Geteuid(); m.uid != 0 && m.uid != uid {
		return place{}, usagef("%q is in a mount of user %d, who is not to say where your command goes; want STORE:/path", text, m.uid)
	}
	inside := path.Join(m.root, strings.TrimPrefix(abs, m.dir))
	said := m.statuses(mounts)
	if len(said) == 1 && said[0].get(statusFlat) != "" {
		return newMountedPlace(said[0], inside), nil
	}
	slug, below, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	if slug == "" {
		return place{}, usagef("%q is a mount of whole stores; want one of them, such as %s", text, filepath.Join(m.dir, "notes"))
	}
	for _, s := range said {
		if s.get(statusStore) == slug {
			return newMountedPlace(s, "/"+below), nil
		}
	}
	if len(said) == 0 {
		return place{}, fmt.Errorf("%q: the mount does not say which store it is, or does not answer; want STORE:/path", text)
	}
	return place{}, fmt.Errorf("%q: there is no store %q in that mount", text, slug)
}

// newMountedPlace returns the place of a path in a store of a mount.
func newMountedPlace(s storeStatus, path string) place {
	return place{store: s.get(statusStore), id: s.get(statusID), url: s.get(statusURL), asOf: s.get(statusAsOf), path: path}
}

// mountAbove returns the topmost mount at or above a path.
func mountAbove(mounts []mountPoint, path string) (best mountPoint, found bool) {
	for _, m := range mounts {
		if (m.dir == path || strings.HasPrefix(path, m.dir+"/")) && len(m.dir) >= len(best.dir) {
			best, found = m, true
		}
	}
	return best, found
}

// statuses returns what a mount says of its stores. m may be a part of a mount that is
// bound to another place.
func (m mountPoint) statuses(mounts []mountPoint) []storeStatus {
	text := ""
	for _, whole := range mounts {
		if whole.minor == m.minor && whole.root == "/" {
			text = readMountStatus(whole.dir)
			break
		}
	}
	if text == "" && !m.flat && m.root != "/" && strings.Count(m.root, "/") == 1 { // a store; of a flat mount, what anybody may write
		text = readStatusFile(m.dir)
	}
	return parseStatuses(text)
}
