package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RenameNew gives the synced file or directory from the name to, durably, unless
// something has that name: then it returns fs.ErrExist and changes nothing. Both
// are on one file system.
func RenameNew(from, to string) error {
	err := step("rename", func() error { return renameNew(from, to) })
	if err == nil {
		err = SyncDir(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("rename to %s: %w", to, err)
	}
	return nil
}

func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// The file system cannot say "unless": what comes between these two is lost.
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	return os.Rename(from, to)
}
