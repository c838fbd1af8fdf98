package conflict

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mneme/internal/durable"
)

// Erase removes the conflicts, open and settled, of which one side is a version with one
// of the ids, or of which has accepts a text or the path. It returns the number of
// conflicts, including remains of others that killed processes have left. Removed files are
// not overwritten on disk. A conflict that cannot be read or removed does not stop the
// removal of others; the error names it.
func (s *Store) Erase(versions map[string]bool, has func(text []byte) bool) (n int, err error) {
	ids, err := s.ids(allIDs)
	if err != nil {
		return 0, err
	}
	var left []error
	for _, id := range ids {
		is, err := s.concerns(id, versions, has)
		if err == nil && is {
			err = s.Remove(id)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			left = append(left, err)
		} else if is {
			n++
		}
	}
	swept, err := s.sweep(time.Now(), beingKept, func(root *os.Root, temp string) error {
		for _, name := range []string{YoursFile, BaseFile, TheirsFile} {
			if text, err := root.ReadFile(filepath.Join(temp, name)); err == nil && has(text) {
				return errBeingKept
			}
		}
		return nil
	})
	left = append(left, err)
	if n += swept; n == 0 {
		return 0, errors.Join(left...)
	}
	root, err := s.dir.Open()
	if err == nil {
		err = durable.SyncDirIn(root, ".")
	}
	if err != nil {
		left = append(left, fmt.Errorf("erase conflicts: %w", err))
	}
	return n, errors.Join(left...)
}

// beingKept is how long a process may take to keep a conflict: what is older was left by one that was killed.
const beingKept = 10 * time.Minute

var errBeingKept = fmt.Errorf("a conflict that a process keeps just now, or has left a moment ago: run the command again in %v", beingKept)

// Versions returns the ids of the versions on the sides of all conflicts, open and settled, each
// once, in their order. A conflict that cannot be read keeps none of the others from it; the error names it.
func (s *Store) Versions() (versions []string, err error) {
	ids, err := s.ids(allIDs)
	if err != nil {
		return nil, err
	}
	var unread []error
	named := map[string]bool{}
	for _, id := range ids {
		about, err := s.About(id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			unread = append(unread, err)
		}
		for _, side := range []*Side{about.Base, about.Theirs} {
			if side != nil {
				named[side.Version] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(named)), errors.Join(unread...)
}

// concerns reports whether Erase must remove a conflict.
func (s *Store) concerns(id int, versions map[string]bool, has func(text []byte) bool) (bool, error) {
	about, err := s.About(id)
	if err != nil {
		return false, err
	}
	if has([]byte(about.Path)) {
		return true, nil
	}
	for _, side := range []*Side{about.Base, about.Theirs} {
		if side != nil && (versions[side.Version] || has([]byte(side.Path))) {
			return true, nil
		}
	}
	for _, name := range []string{YoursFile, BaseFile, TheirsFile} {
		text, err := s.Read(id, name)
		if err != nil || text != nil && has(text) {
			return err == nil, err
		}
	}
	return false, nil
}
