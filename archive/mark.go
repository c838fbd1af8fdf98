package archive

import (
	"errors"
	"io/fs"
	"strings"

	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// marks is a directory that notes which imports have begun to make a store and have not ended:
// a file of each, named by the store's id, with the root of the archive. So a store with a
// beginning of a history is told from one that somebody has, and a store that has some of an
// archive's memories from any other. "" notes nothing.
type marks string

// has reports whether an import of an archive has begun to make a store.
func (m marks) has(storeID string, of *Manifest) (bool, error) {
	if m == "" {
		return false, nil
	}
	root, err := safepath.OpenRoot(string(m))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	text, err := root.ReadFile(storeID)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return strings.TrimSpace(string(text)) == of.Root.String(), err
}

// HasBegun reports whether an import has begun to make a store and has not ended, as a
// directory of marks says (Options.Marks).
func HasBegun(marks, storeID string) (bool, error) {
	root, err := safepath.OpenRoot(marks)
	if err == nil {
		defer root.Close()
		_, err = root.Stat(storeID)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// set notes that an import begins, durably.
func (m marks) set(storeID string, of *Manifest) error {
	if m == "" {
		return nil
	}
	root, err := safepath.NewRoot(string(m)).Make(0o700)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.WriteFile(root, storeID, []byte(of.Root.String()+"\n"), 0o600)
}

// clear notes that it has ended.
func (m marks) clear(storeID string) error {
	if m == "" {
		return nil
	}
	root, err := safepath.OpenRoot(string(m))
	if err == nil {
		defer root.Close()
		err = root.Remove(storeID)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
