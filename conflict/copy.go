package conflict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"mneme/internal/durable"
)

// CopyTo copies all conflicts with their numbers into the directory dir, which is
// made when there is one, and returns how many. Each is copied whole; one that is
// settled meanwhile is left out. What is copied is durable when CopyTo returns nil.
func (s *Store) CopyTo(dir string) (int, error) {
	ids, err := s.IDs()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("copy conflicts: %w", err)
	}
	copied := 0
	for _, id := range ids {
		to := filepath.Join(dir, strconv.Itoa(id))
		err := copyFiles(s.dirOf(id), to)
		if errors.Is(err, fs.ErrNotExist) {
			if err := os.RemoveAll(to); err != nil {
				return copied, fmt.Errorf("copy conflict %d: %w", id, err)
			}
			continue
		}
		if err != nil {
			return copied, fmt.Errorf("copy conflict %d: %w", id, err)
		}
		copied++
	}
	last := strconv.Itoa(ids[len(ids)-1])
	if text, err := os.ReadFile(filepath.Join(s.dir, lastFile)); err == nil {
		last = string(text)
	}
	return copied, durable.WriteFile(filepath.Join(dir, lastFile), []byte(last), 0o600)
}

// copyFiles copies the files of one conflict into a new directory.
func copyFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		if err := durable.WriteFile(filepath.Join(to, e.Name()), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
