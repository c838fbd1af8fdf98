package versionlog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// State is what a store held right after one commit: the past as it was, which never
// changes. Methods mean what those of Log do, may be called at once from many
// goroutines, and work as long as the log is open.
type State interface {
	// Head returns the version that lived at a path. ErrNotFound.
	Head(ctx context.Context, path string) (Version, error)
	// Heads yields the versions that lived at prefix or below, as Log.Heads does.
	Heads(ctx context.Context, prefix, after string) iter.Seq2[Version, error]
	// Children yields what lay directly in a directory, as Log.Children does.
	Children(ctx context.Context, dir string) iter.Seq2[Version, error]
}

// Replay returns the state of a store after commit seq, in memory, from its commits in
// their order from the first on. It is for a log that has no index of the past.
// ErrNotFound: the commits end before.
func Replay(seq uint64, commits iter.Seq2[*Commit, error]) (State, error) {
	if seq == 0 {
		return replayed(nil), nil
	}
	heads := map[string]Version{}
	for c, err := range commits {
		if err != nil {
			return nil, err
		}
		for _, v := range c.Versions {
			if v.Op == OpRenamed {
				delete(heads, v.From)
			}
		}
		for _, v := range c.Versions {
			if v.Live() {
				heads[v.Path] = v
			} else {
				delete(heads, v.Path)
			}
		}
		if c.Seq == seq {
			return newReplayed(heads), nil
		}
	}
	return nil, fmt.Errorf("commit %d: %w", seq, ErrNotFound)
}

// replayed are the versions of a State, in the order of their paths.
type replayed []Version

func newReplayed(heads map[string]Version) replayed {
	r := make(replayed, 0, len(heads))
	for _, v := range heads {
		r = append(r, v)
	}
	slices.SortFunc(r, func(a, b Version) int { return strings.Compare(a.Path, b.Path) })
	return r
}

// from returns where the paths begin that are not before one.
func (r replayed) from(path string) int {
	i, _ := slices.BinarySearchFunc(r, path, func(v Version, path string) int { return strings.Compare(v.Path, path) })
	return i
}

func (r replayed) Head(ctx context.Context, path string) (Version, error) {
	if i := r.from(path); i < len(r) && r[i].Path == path {
		return r[i], ctx.Err()
	}
	return Version{}, fmt.Errorf("%s: %w", path, ErrNotFound)
}

func (r replayed) Heads(ctx context.Context, prefix, after string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if v, err := r.Head(ctx, prefix); err == nil && prefix > after && !yield(v, nil) {
			return
		}
		r.below(ctx, strings.TrimSuffix(prefix, "/")+"/", after)(yield)
	}
}

// below yields the versions whose paths begin with a directory's, with its slash, and
// are behind after.
func (r replayed) below(ctx context.Context, dir, after string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for _, v := range r[r.from(max(dir, after+"\x00")):] {
			if !strings.HasPrefix(v.Path, dir) {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(Version{}, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (r replayed) Children(ctx context.Context, dir string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		dir := strings.TrimSuffix(dir, "/") + "/"
		last := ""
		for v, err := range r.below(ctx, dir, "") {
			name := ""
			if err == nil {
				name, _, _ = strings.Cut(v.Path[len(dir):], "/")
			}
			if err == nil && (name == "" || name == last) { // the directory itself, or another of the same name
				continue
			}
			last = name
			if !yield(v, err) {
				return
			}
		}
	}
}
