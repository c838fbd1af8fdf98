package main

import (
	"errors"
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
	slug, below, _ := strings.Cut(strings.TrimPrefix(path.Join(m.root, strings.TrimPrefix(abs, m.dir)), "/"), "/")
	if slug == "" {
		return place{}, usagef("%q is a mount of whole stores; want one of them, such as %s", text, filepath.Join(m.dir, "notes"))
	}
	p := place{store: slug, path: "/" + below}
	if uid := os.Geteuid(); m.uid != 0 && m.uid != uid {
		return place{}, usagef("%q is in a mount of user %d, who is not to say where your command goes; want %s", text, m.uid, p)
	}
	status, err := m.statusOf(mounts, slug)
	if err != nil {
		return place{}, fmt.Errorf("%q: %w; want %s", text, err, p)
	}
	p.id, p.url = status.get(statusID), status.get(statusURL)
	return p, nil
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

// statusOf returns what a mount says of one of its stores. m may be a part of a
// mount that is bound to another place.
func (m mountPoint) statusOf(mounts []mountPoint, slug string) (storeStatus, error) {
	text := ""
	for _, whole := range mounts {
		if whole.minor == m.minor && whole.root == "/" {
			text = readMountStatus(whole.dir)
			break
		}
	}
	if text == "" && m.root == "/"+slug {
		text = readStatusFile(m.dir)
	}
	for _, s := range parseStatuses(text) {
		if s.get(statusStore) == slug {
			return s, nil
		}
	}
	if text == "" {
		return nil, errors.New("the mount does not say which store it is, or does not answer")
	}
	return nil, fmt.Errorf("there is no store %q in that mount", slug)
}
