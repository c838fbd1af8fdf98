// Package history reads the past of a store: the versions of a path, the log of a directory, blame,
// the first version that said something, points in time, differences and patches, and credentials
// in old versions. It reads through package memory and writes nothing. Read versions.go first.
package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// Versions yields all that is known of a path, newest first: every version of the
// memory that is there, else of the one that was there last, also those that it
// had under other names; and of each other memory that ever was at the path those
// by which it came, changed there and left. versionlog.ErrNotFound when there
// never was one.
//
// A program that saves a file by renaming the old one away makes a new memory
// every time; the history of the path goes on all the same.
func Versions(ctx context.Context, s *memory.Store, path string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		path, last, err := last(ctx, s, path)
		if err != nil {
			yield(versionlog.Version{}, err)
			return
		}
		next, stop := iter.Pull2(others(s.Log().PathHistory(ctx, s.Info().ID, path), last.MemoryID))
		defer stop()
		other, otherErr, more := next()
		for v, err := range s.Log().History(ctx, s.Info().ID, last.MemoryID, 0) {
			for ; err == nil && more && (otherErr != nil || other.ID > v.ID); other, otherErr, more = next() {
				if !yield(other, otherErr) || otherErr != nil {
					return
				}
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
		for ; more; other, otherErr, more = next() {
			if !yield(other, otherErr) || otherErr != nil {
				return
			}
		}
	}
}

// others yields the versions that are not of a memory.
func others(versions iter.Seq2[versionlog.Version, error], memoryID string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range versions {
			if (err != nil || v.MemoryID != memoryID) && !yield(v, err) {
				return
			}
		}
	}
}

// last returns the canonical form of a path, and the newest version there.
func last(ctx context.Context, s *memory.Store, path string) (string, versionlog.Version, error) {
	path, err := memory.ParsePath(path)
	if err != nil {
		return path, versionlog.Version{}, err
	}
	v, err := s.Log().Last(ctx, s.Info().ID, path)
	if err != nil {
		return path, v, s.Wrap(path, err)
	}
	return path, v, nil
}

// IsVersionRef reports whether a text has the form of a reference to a version: a version
// id, or a sequence number.
func IsVersionRef(ref string) bool {
	if _, err := strconv.ParseUint(ref, 10, 64); err == nil {
		return true
	}
	_, _, err := versionlog.LocateVersion(ref)
	return err == nil
}

// Resolve returns the version in the history of a path that ref means: a version
// id, or a sequence number. versionlog.ErrNotFound, ErrBadVersion.
func Resolve(ctx context.Context, s *memory.Store, path, ref string) (versionlog.Version, error) {
	var v versionlog.Version
	path, last, err := last(ctx, s, path)
	if err != nil {
		return v, err
	}
	if seq, parseErr := strconv.ParseUint(ref, 10, 64); parseErr == nil {
		return versionAt(ctx, s, path, last.MemoryID, seq)
	}
	if !IsVersionRef(ref) {
		return v, &memory.VersionRefError{Store: s.Info().Slug, Path: path, Ref: ref}
	}
	v, err = s.Log().Version(ctx, s.Info().ID, ref)
	if errors.Is(err, versionlog.ErrNotFound) {
		return v, noVersion(ctx, s, path, ref)
	}
	if err != nil {
		return v, err
	}
	if v.MemoryID != last.MemoryID && !v.At(path) {
		return v, fmt.Errorf("%w: %s is a version of %s, not of %s", memory.ErrBadVersion, ref, v.Path, path)
	}
	return v, nil
}

// versionAt returns the version that a sequence number means in the history of a path, of which
// memoryID is the memory that was there last. One commit may have several: the first is meant
// that has a text, in the order of the path, the memory under another name, another memory that
// left the path; else the first without one.
func versionAt(ctx context.Context, s *memory.Store, path, memoryID string, seq uint64) (versionlog.Version, error) {
	c, err := versionlog.CommitAt(ctx, s.Log(), s.Info().ID, seq)
	if err != nil {
		return versionlog.Version{}, err
	}
	var meant versionlog.Version
	best := 0
	if c != nil {
		for _, v := range c.Versions {
			rank := 0
			switch {
			case v.Path == path:
				rank = 3
			case v.MemoryID == memoryID:
				rank = 2
			case v.At(path):
				rank = 1
			default:
				continue
			}
			if v.HasText() {
				rank += 3
			}
			if rank > best {
				meant, best = v, rank
			}
		}
	}
	if best == 0 {
		return meant, noVersion(ctx, s, path, strconv.FormatUint(seq, 10))
	}
	return meant, nil
}

// noVersion is the error of a reference to a version that a path never had.
func noVersion(ctx context.Context, s *memory.Store, path, ref string) error {
	e := &memory.NoVersionError{Store: s.Info().Slug, Path: path, Ref: ref}
	for v, err := range Versions(ctx, s, path) {
		if err != nil {
			return err
		}
		if e.Newest = append(e.Newest, v.Seq); len(e.Newest) == 10 {
			break
		}
	}
	return e
}

// Restoring returns the change that makes the content of an earlier version the content
// of path again, as a new version of the memory at that path. If the path has no memory,
// the version's memory comes back with its id if it was deleted. If it now lives under
// another name, it stays there, and a new one is made.
func Restoring(ctx context.Context, s *memory.Store, path string, v versionlog.Version) (memory.Change, error) {
	data, err := s.Content(ctx, v)
	if err != nil {
		return memory.Change{}, err
	}
	c := memory.Change{Action: versionlog.Put, Path: path, Content: data}
	head, err := s.Head(ctx, path)
	switch {
	case err == nil:
		c.Expect = versionlog.ExpectVersion(head.ID)
	case errors.Is(err, versionlog.ErrNotFound):
		c.Expect, c.Spelling = versionlog.ExpectAbsent(), memory.Spelled(path, v.Spelling)
		newest, err := s.Log().Newest(ctx, s.Info().ID, v.MemoryID)
		if err != nil {
			return memory.Change{}, err
		}
		if !newest.Live() {
			c.Revive = v.MemoryID
		}
	default:
		return memory.Change{}, err
	}
	return c, nil
}

// Parent returns the version that v replaced, or false for a first version.
func Parent(ctx context.Context, s *memory.Store, v versionlog.Version) (versionlog.Version, bool, error) {
	if v.Parent == "" {
		return versionlog.Version{}, false, nil
	}
	parent, err := s.Log().Version(ctx, s.Info().ID, v.Parent)
	if err != nil {
		return parent, false, fmt.Errorf("parent of %s: %w", v.ID, err)
	}
	return parent, true, nil
}

// saveTime is how long a session may take to save a file by renaming the old one away.
const saveTime = time.Minute

// Replaced returns the version whose content v took the place of at a path: its
// parent or, where v brought a memory there, the version by which the same session
// had renamed another one away within the minute before, to make room for it, as some
// editors save. False when there is none.
func Replaced(ctx context.Context, s *memory.Store, path string, v versionlog.Version) (versionlog.Version, bool, error) {
	if v.Arrives() && v.Session != "" {
		for before, err := range s.Log().PathHistory(ctx, s.Info().ID, path) {
			if err != nil {
				return before, false, err
			}
			if before.ID >= v.ID {
				continue
			}
			if before.Op == versionlog.OpRenamed && before.From == path && before.Actor == v.Actor && before.Session == v.Session &&
				v.Time.Sub(before.Time) <= saveTime {
				return before, true, nil
			}
			break
		}
	}
	return Parent(ctx, s, v)
}

// Known reports whether there is a memory or a directory at a path, or was one.
func Known(ctx context.Context, s *memory.Store, path string) (bool, error) {
	path, err := memory.ParsePath(path)
	if err != nil {
		return false, nil // nothing ever had it
	}
	for _, at := range []string{path, path + "/"} {
		_, err := s.Log().Last(ctx, s.Info().ID, at)
		if !errors.Is(err, versionlog.ErrNotFound) {
			return err == nil, err
		}
	}
	return s.Log().Held(ctx, s.Info().ID, path)
}
