package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

// place is what a person writes as STORE:/path, checked.
type place struct{ store, path string }

func (p place) String() string { return p.store + ":" + p.path }

// parseMemory reads the place of a memory.
func parseMemory(text string) (place, error) {
	p, err := splitPlace(text)
	if err != nil {
		return p, err
	}
	if p.path == "" {
		return p, usagef("%q names a store, want a memory in it such as %s:/todo.md", text, p.store)
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
	if text == "" || strings.ContainsRune("/.~", rune(text[0])) {
		return place{}, usagef("%q is not a place in a store; want STORE:/path such as notes:/todo.md", text)
	}
	store, path, hasPath := strings.Cut(text, ":")
	switch {
	case store == "":
		return place{}, usagef("%q names no store; want STORE:/path such as notes%s", text, text)
	case !hasPath && strings.Contains(store, "/"):
		name, rest, _ := strings.Cut(store, "/")
		return place{}, usagef("%q has no colon after the store; want %s:/%s", text, name, rest)
	case hasPath && !strings.HasPrefix(path, "/"):
		return place{}, usagef("%q has no / after the colon; want %s:/%s", text, store, path)
	}
	return place{store, path}, nil
}

// explainMissing adds to a not-found error what is at the path, or was.
func explainMissing(ctx context.Context, st *memory.Store, path string, err error) error {
	if !errors.Is(err, versionlog.ErrNotFound) {
		return err
	}
	store := st.Info().Slug
	at := place{store, path}
	for v, headsErr := range st.Heads(ctx, path) {
		if headsErr == nil && v.Path != path {
			return fmt.Errorf("%s is a directory, not a memory: %w; `mneme ls` lists it", at, versionlog.ErrNotFound)
		}
		return err
	}
	for _, historyErr := range st.History(ctx, path) {
		if historyErr == nil {
			return fmt.Errorf("%s: %w, but it was there; `mneme log %s` shows its versions", at, versionlog.ErrNotFound, at)
		}
		break
	}
	return fmt.Errorf("%s: %w; `mneme ls %s` lists what is there", at, versionlog.ErrNotFound, store)
}
