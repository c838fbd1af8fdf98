package conflict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// CopyTo copies all conflicts with their numbers into the directory dir, which is made if
// the store has a conflict, and returns their number. Each is copied whole; one that is
// settled meanwhile is left out. The copies are durable when CopyTo returns nil.
func (s *Store) CopyTo(dir string) (int, error) {
	ids, err := s.IDs()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	from, err := s.dir.Open()
	if err != nil {
		return 0, fmt.Errorf("copy conflicts: %w", err)
	}
	to, err := safepath.NewRoot(dir).Make(0o700)
	if err != nil {
		return 0, fmt.Errorf("copy conflicts: %w", err)
	}
	copied := 0
	for _, id := range ids {
		err := copyFiles(from, to, dirOf(id))
		if errors.Is(err, fs.ErrNotExist) {
			if err := to.RemoveAll(dirOf(id)); err != nil {
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
	if text, err := from.ReadFile(lastFile); err == nil {
		last = string(text)
	}
	return copied, durable.WriteFile(to, lastFile, []byte(last), 0o600)
}

// copyFiles copies the files of the conflict in a directory into a new one of the
// same name.
func copyFiles(from, to *os.Root, dir string) error {
	entries, err := fs.ReadDir(from.FS(), dir)
	if err != nil {
		return err
	}
	if err := to.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		data, err := from.ReadFile(name)
		if err != nil {
			return err
		}
		if err := durable.WriteFile(to, name, data, 0o600); err != nil {
			return err
		}
	}
	return durable.SyncDirIn(to, ".")
}
