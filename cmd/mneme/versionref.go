package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// versionPrefix begins every version id.
const versionPrefix = "memver_"

// resolveVersion returns the version of a memory that a person's word means: a version id, the
// sequence number of a version, or any other point, at which it is the version that was there.
func resolveVersion(ctx context.Context, st *memory.Store, path, ref string) (versionlog.Version, error) {
	if _, err := strconv.ParseUint(ref, 10, 64); err == nil || strings.HasPrefix(ref, versionPrefix) {
		return history.Resolve(ctx, st, path, ref)
	}
	point, err := history.ParsePoint(ref, time.Now())
	if err != nil {
		return history.Resolve(ctx, st, path, ref) // it says what a version is
	}
	seq, err := history.ResolvePoint(ctx, st, point)
	if err != nil {
		return versionlog.Version{}, err
	}
	return history.AsOf(ctx, st, path, seq)
}

func versionRef(ctx context.Context, st *memory.Store, path, ref string) (*versionlog.Version, error) {
	v, err := resolveVersion(ctx, st, path, ref)
	return &v, err
}

// versionOrHead is resolveVersion, and the live version for "".
func versionOrHead(ctx context.Context, st *memory.Store, path, ref string) (versionlog.Version, error) {
	if ref == "" {
		return st.Head(ctx, path)
	}
	return resolveVersion(ctx, st, path, ref)
}

// withVersion opens the store of a place for the time of do, which gets the version that the
// place or a reference means: the live one where neither says which.
func (a *app) withVersion(ctx context.Context, at, ref string, do func(*memory.Store, place, versionlog.Version) error) error {
	p, err := parseMemory(at)
	if err != nil {
		return err
	}
	return a.withPlace(ctx, p, reading, func(st *memory.Store) error {
		path, version, err := oneVersion(ctx, st, p.path, ref)
		if err != nil {
			return err
		}
		v, err := versionOrHead(ctx, st, path, version)
		if err != nil {
			return explainMissing(ctx, st, path, err)
		}
		return do(st, p, v)
	})
}

// newestVersion returns the last thing that happened to the memory at path,
// which may be its deletion.
func newestVersion(ctx context.Context, st *memory.Store, path string) (*versionlog.Version, error) {
	for v, err := range history.Versions(ctx, st, path) {
		return &v, err
	}
	return nil, fmt.Errorf("%s:%s: %w", st.Info().Slug, path, versionlog.ErrNotFound)
}
