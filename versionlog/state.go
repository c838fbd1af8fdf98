package versionlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// State is the content of a store right after one commit: the past as it was, which never
// changes. Methods have the meaning of those of Log, may be called at once from many
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
func Replay(seq uint64, commits iter.Seq2[*Commit, error]) (Sorted, error) {
	if seq == 0 {
		return replayed(nil).state(), nil
	}
	heads := map[string]Version{}
	at := map[string]string{} // where a memory lives, by its id
	for c, err := range commits {
		if err != nil {
			return nil, err
		}
		for i := range c.Versions { // what one leaves another may take
			id := c.Versions[i].MemoryID
			if path, lives := at[id]; lives {
				delete(heads, path)
				delete(at, id)
			}
		}
		for i := range c.Versions {
			if v := &c.Versions[i]; v.Live() && !v.Redacted() {
				heads[v.Path], at[v.MemoryID] = *v, v.Path
			}
		}
		if c.Seq == seq {
			return newReplayed(heads).state(), nil
		}
	}
	return nil, fmt.Errorf("commit %d: %w", seq, ErrNotFound)
}

// Heads yields the paths that the commit changes and what lives there after it: nil where
// it leaves nothing. A path that is left and taken again is yielded twice, in that order,
// and one that was erased not at all: so heads that are brought up to date with it are right
// only where no commit has HasRedacted. An erased deletion or rename would leave what it has
// removed.
func (c *Commit) Heads() iter.Seq2[string, *Version] {
	return func(yield func(string, *Version) bool) {
		for i := range c.Versions {
			v := &c.Versions[i]
			switch {
			case v.Redacted():
			case v.Op == OpRenamed && !yield(v.From, nil):
				return
			case !v.Live() && !yield(v.Path, nil):
				return
			}
		}
		for i := range c.Versions {
			if v := &c.Versions[i]; v.Live() && !v.Redacted() && !yield(v.Path, v) {
				return
			}
		}
	}
}

// HasRedacted reports whether one of the commit's versions was erased.
func (c *Commit) HasRedacted() bool {
	return slices.ContainsFunc(c.Versions, func(v Version) bool { return v.Redacted() })
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

func (r replayed) state() Sorted {
	return func(ctx context.Context, path string) iter.Seq2[Version, error] {
		return func(yield func(Version, error) bool) {
			i, _ := slices.BinarySearchFunc(r, path, func(v Version, path string) int { return strings.Compare(v.Path, path) })
			for _, v := range r[i:] {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// Sorted is a State that is made of one function: it yields what lived at a path and at
// all that are behind it, in byte order.
type Sorted func(ctx context.Context, path string) iter.Seq2[Version, error]

// from yields what s does, and the error of a context that has ended.
func (s Sorted) from(ctx context.Context, path string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(Version{}, err)
			return
		}
		for v, err := range s(ctx, path) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Head is part of State.
func (s Sorted) Head(ctx context.Context, path string) (Version, error) {
	for v, err := range s.from(ctx, path) {
		if err != nil {
			return Version{}, err
		}
		if v.Path == path {
			return v, nil
		}
		break
	}
	return Version{}, fmt.Errorf("%s: %w", path, ErrNotFound)
}

// Heads is part of State.
func (s Sorted) Heads(ctx context.Context, prefix, after string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		v, err := s.Head(ctx, prefix)
		switch {
		case err != nil && !errors.Is(err, ErrNotFound):
			yield(Version{}, err)
			return
		case err == nil && prefix > after && !yield(v, nil):
			return
		}
		below := strings.TrimSuffix(prefix, "/") + "/"
		for v, err := range s.from(ctx, max(below, after+"\x00")) {
			if err == nil && !strings.HasPrefix(v.Path, below) || !yield(v, err) {
				return
			}
		}
	}
}

// Children is part of State. After the first version in a subdirectory it starts again
// behind that subdirectory.
func (s Sorted) Children(ctx context.Context, dir string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		below := strings.TrimSuffix(dir, "/") + "/"
		for at := below + "\x00"; at != ""; { // behind the directory itself
			from := at
			at = ""
			for v, err := range s.from(ctx, from) {
				if err == nil && !strings.HasPrefix(v.Path, below) || !yield(v, err) || err != nil {
					return
				}
				if name, _, deeper := strings.Cut(v.Path[len(below):], "/"); deeper {
					at = below + name + "0" // the part after the slash
					break
				}
			}
		}
	}
}
