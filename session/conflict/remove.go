package conflict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mneme/internal/durable"
)

// Remove forgets a conflict, open or settled. ErrNotFound.
func (s *Store) Remove(id int) error {
	// Renamed first, so that a conflict is there whole or not at all.
	temp := fmt.Sprintf("%sgone-%d", durable.TempPrefix, id)
	err := s.at(id, func(root *os.Root, dir string) error {
		if err := root.Rename(dir, temp); err != nil {
			return err
		}
		return removeTree(root, temp)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("conflict %d: %w", id, ErrNotFound)
	}
	return err
}

// removeTree removes a directory that has just lost its name. A call that had found it by that name,
// such as Settle, may still make a file in it.
func removeTree(root *os.Root, temp string) (err error) {
	for range 10 {
		if err = root.RemoveAll(temp); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// RemoveAll removes all conflicts with the directory that keeps them.
func (s *Store) RemoveAll() error {
	root, err := s.dir.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	return errors.Join(err, os.Remove(s.Dir()))
}

// Expired returns the conflicts that are older than Life at now.
func (s *Store) Expired(now time.Time) ([]About, error) {
	list, err := s.ListAll()
	return slices.DeleteFunc(list, func(a About) bool { return now.Sub(a.Time) <= Life }), err
}

// Expire removes the conflicts that are older than Life at now, and what
// processes that were killed have left behind.
func (s *Store) Expire(now time.Time) error {
	list, err := s.Expired(now)
	if err != nil {
		return err
	}
	for _, about := range list {
		if err := s.Remove(about.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	_, err = s.sweep(now, time.Hour, func(*os.Root, string) error { return nil })
	return err
}

// sweep removes the remains of conflicts that killed processes have left, and returns their
// number. Remains younger than an age may be of a living process; the error is that of
// young.
func (s *Store) sweep(now time.Time, age time.Duration, young func(root *os.Root, temp string) error) (n int, err error) {
	root, err := s.dir.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil || !strings.HasPrefix(e.Name(), durable.TempPrefix) {
			continue
		}
		if now.Sub(info.ModTime()) < age {
			err = errors.Join(err, young(root, e.Name()))
			continue
		}
		if removeErr := root.RemoveAll(e.Name()); removeErr != nil {
			err = errors.Join(err, removeErr)
			continue
		}
		n++
	}
	return n, err
}
