package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"mneme/versionlog"
)

// History yields every version of the memory at path, newest first: of the one
// that is there, else of the one that was there last. versionlog.ErrNotFound
// when there never was one.
func (s *Store) History(ctx context.Context, path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		last, err := s.last(ctx, path)
		if err != nil {
			yield(versionlog.Version{}, err)
			return
		}
		for v, err := range s.log.History(ctx, s.info.ID, last.MemoryID) {
			if !yield(v, err) {
				return
			}
		}
	}
}

func (s *Store) last(ctx context.Context, path string) (versionlog.Version, error) {
	path, err := ParsePath(path)
	if err != nil {
		return versionlog.Version{}, err
	}
	v, err := s.log.Last(ctx, s.info.ID, path)
	if err != nil {
		return v, s.wrap(path, err)
	}
	return v, nil
}

// Resolve returns the version of the memory at path that ref means: a version
// id, or the sequence number of one of its versions. versionlog.ErrNotFound,
// ErrBadVersion.
func (s *Store) Resolve(ctx context.Context, path, ref string) (versionlog.Version, error) {
	var v versionlog.Version
	path, err := ParsePath(path)
	if err != nil {
		return v, err
	}
	if seq, parseErr := strconv.ParseUint(ref, 10, 64); parseErr == nil {
		v, err = s.versionAt(ctx, path, seq)
	} else if _, _, parseErr = versionlog.LocateVersion(ref); parseErr == nil {
		v, err = s.log.Version(ctx, s.info.ID, ref)
	} else {
		err = fmt.Errorf("%w: %q is neither a version id (memver_…) nor a sequence number; `mneme log %s:%s` lists both", ErrBadVersion, ref, s.info.Slug, path)
	}
	if err != nil {
		return v, err
	}
	last, err := s.last(ctx, path)
	if err != nil {
		return v, err
	}
	if v.MemoryID != last.MemoryID && v.Path != path { // else it was at path in an earlier life
		return v, fmt.Errorf("%w: %s is a version of %s, not of %s", ErrBadVersion, ref, v.Path, path)
	}
	return v, nil
}

func (s *Store) versionAt(ctx context.Context, path string, seq uint64) (versionlog.Version, error) {
	var have []string
	for v, err := range s.History(ctx, path) {
		if err != nil {
			return v, err
		}
		if v.Seq == seq {
			return v, nil
		}
		if len(have) < 10 {
			have = append(have, strconv.FormatUint(v.Seq, 10))
		}
	}
	return versionlog.Version{}, fmt.Errorf("%s:%s: version at sequence %d: %w; the newest are at %s",
		s.info.Slug, path, seq, versionlog.ErrNotFound, strings.Join(have, ", "))
}

// Restore makes the content of an earlier version of the memory at path its
// content again, as a new version. A deleted memory comes back with its id.
// Restoring what is there already changes nothing and returns the head.
func (s *Store) Restore(ctx context.Context, path string, v versionlog.Version) (versionlog.Version, error) {
	data, err := s.Content(ctx, v)
	if err != nil {
		return versionlog.Version{}, err
	}
	c := Change{Action: versionlog.Put, Path: path, Content: data}
	head, err := s.Head(ctx, path)
	switch {
	case err == nil:
		c.Expect = versionlog.ExpectVersion(head.ID)
	case errors.Is(err, versionlog.ErrNotFound):
		c.Expect = versionlog.ExpectAbsent()
		newest, err := s.newest(ctx, v.MemoryID)
		if err != nil {
			return versionlog.Version{}, err
		}
		if !newest.Live() {
			c.Revive = v.MemoryID
		}
	default:
		return versionlog.Version{}, err
	}
	return s.put(ctx, c, &CommitOptions{Message: "restore " + v.ID})
}

func (s *Store) newest(ctx context.Context, memoryID string) (versionlog.Version, error) {
	for v, err := range s.log.History(ctx, s.info.ID, memoryID) {
		return v, err
	}
	return versionlog.Version{}, fmt.Errorf("memory %s: %w", memoryID, versionlog.ErrNotFound)
}

// Parent returns the version that v replaced, or false for a first version.
func (s *Store) Parent(ctx context.Context, v versionlog.Version) (versionlog.Version, bool, error) {
	if v.Parent == "" {
		return versionlog.Version{}, false, nil
	}
	parent, err := s.log.Version(ctx, s.info.ID, v.Parent)
	if err != nil {
		return parent, false, fmt.Errorf("parent of %s: %w", v.ID, err)
	}
	return parent, true, nil
}
