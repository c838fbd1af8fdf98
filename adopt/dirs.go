package adopt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mneme/errkind"
	"mneme/internal/durable"
)

// ErrUndoHasWay says that undoing would lose changes that others have made.
var ErrUndoHasWay = errkind.New(errkind.Exists, "something is in the way of undoing it")

// removeEmptyDir removes a directory that was made to mount at, if it exists.
func removeEmptyDir(dir string) error {
	err := syscall.Rmdir(dir)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%w: %w", ErrUndoHasWay, StrayFiles(dir))
	case err != nil:
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// StrayFiles is the error for files in the directory at which the store must be mounted.
func StrayFiles(dir string) error {
	return fmt.Errorf("%s holds files that were made while the store was not mounted; move them away, then again", dir)
}

// firstMissing returns the topmost missing directory of a path; "": none is missing.
func firstMissing(dir string) (missing string) {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = dir
	}
	return missing
}

// removeMade removes a directory and its parents up to the topmost one that was made, as
// long as they are empty. It does nothing if topmost is "".
func removeMade(dir, topmost string) error {
	for ; topmost != "" && IsBelow(dir, topmost); dir = filepath.Dir(dir) {
		err := syscall.Rmdir(dir)
		switch {
		case errors.Is(err, syscall.ENOTEMPTY):
			return nil
		case err != nil && !errors.Is(err, syscall.ENOENT):
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}

// IsBelow reports whether a path is a directory or below it.
func IsBelow(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
