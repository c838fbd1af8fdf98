package view

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// VersionPrefix begins every version id.
const VersionPrefix = "memver_"

// ResolveVersion returns the version of a memory that ref names: a version id, the sequence
// number of a version, or any other point, at which it was the current version.
func ResolveVersion(ctx context.Context, st *memory.Store, path, ref string) (versionlog.Version, error) {
	if _, err := strconv.ParseUint(ref, 10, 64); err == nil || strings.HasPrefix(ref, VersionPrefix) {
		return history.Resolve(ctx, st, path, ref)
	}
	point, err := history.ParsePoint(ref, time.Now())
	if err != nil {
		return history.Resolve(ctx, st, path, ref) // its error explains versions
	}
	seq, err := history.ResolvePoint(ctx, st, point)
	if err != nil {
		return versionlog.Version{}, err
	}
	return history.AsOf(ctx, st, path, seq)
}

// VersionRef is ResolveVersion, with a pointer.
func VersionRef(ctx context.Context, st *memory.Store, path, ref string) (*versionlog.Version, error) {
	v, err := ResolveVersion(ctx, st, path, ref)
	return &v, err
}

// VersionOrHead is ResolveVersion, and the current version for "".
func VersionOrHead(ctx context.Context, st *memory.Store, path, ref string) (versionlog.Version, error) {
	if ref == "" {
		return st.Head(ctx, path)
	}
	return ResolveVersion(ctx, st, path, ref)
}

// WithVersion opens the store of a place, and closes it after do. do gets the version that
// the place or ref names, or the current one.
func WithVersion(ctx context.Context, a *app.App, at, ref string, do func(*memory.Store, app.Place, versionlog.Version) error) error {
	p, err := app.ParseMemory(at)
	if err != nil {
		return err
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		path, version, err := app.OneVersion(ctx, st, p.Path, ref)
		if err != nil {
			return err
		}
		v, err := VersionOrHead(ctx, st, path, version)
		if err != nil {
			return app.ExplainMissing(ctx, st, path, err)
		}
		return do(st, p, v)
	})
}

// NewestVersion returns the newest version of the memory at path, which may be its
// deletion.
func NewestVersion(ctx context.Context, st *memory.Store, path string) (*versionlog.Version, error) {
	for v, err := range history.Versions(ctx, st, path) {
		return &v, err
	}
	return nil, fmt.Errorf("%s:%s: %w", st.Info().Slug, path, versionlog.ErrNotFound)
}
