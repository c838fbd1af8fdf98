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
// beginning of a history can be distinguished from a complete one, and a store with some of an
// archive's memories from any other. "" notes nothing.
type marks string

// root returns the root of the archive whose import has begun to make a store, and whether there
// is one.
func (m marks) root(storeID string) (of string, begun bool, err error) {
	if m == "" {
		return "", false, nil
	}
	root, err := safepath.OpenRoot(string(m))
	var text []byte
	if err == nil {
		defer root.Close()
		text, err = root.ReadFile(storeID)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return strings.TrimSpace(string(text)), err == nil, err
}

// has reports whether an import of an archive has begun to make a store.
func (m marks) has(storeID string, of *Manifest) (bool, error) {
	root, begun, err := m.root(storeID)
	return begun && root == of.Root.String(), err
}

// HasBegun reports whether an import has begun to make a store and has not ended, as a
// directory of marks says (ImportOptions.Marks).
func HasBegun(dir, storeID string) (bool, error) {
	_, begun, err := marks(dir).root(storeID)
	return begun, err
}

// Forget removes from a directory of marks that of a store, which has been deleted.
func Forget(dir, storeID string) error { return marks(dir).clear(storeID) }

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
