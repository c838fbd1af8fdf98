// Package durable is the one place that makes files and directories survive a
// crash of the machine: temporary file, fsync, rename, fsync of the directory.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// TempPrefix begins the name of every temporary file that WriteFile makes. A
// process that is killed may leave one behind; Sweep removes it.
const TempPrefix = ".tmp-"

var fsyncs atomic.Uint64

// step runs one named system call of this package. Tests replace it, to fail
// before or after the call.
var step = func(_ string, call func() error) error { return call() }

// Fsyncs returns how many fsync calls this process has made through this
// package, failed ones included.
func Fsyncs() uint64 { return fsyncs.Load() }

// WriteFile replaces the file name in a directory by one that holds data, durably.
// When it returns nil the new content survives a crash of the machine. When it
// fails, the file is what it was before, or, if only the last fsync failed, the new
// content whole; it is never torn, and no temporary file is left. The directory that
// the name is in must exist. A file that was there is replaced, not written to, and
// perm is not subject to the umask. Errors keep the syscall.Errno they were.
func WriteFile(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	err := writeFile(root, name, data, perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(root.Name(), name), err)
	}
	return nil
}

func writeFile(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	dir := filepath.Dir(name)
	temp, err := writeTemp(root, dir, data, perm)
	if err != nil {
		return err
	}
	if err := step("rename", func() error { return root.Rename(temp, name) }); err != nil {
		return errors.Join(err, removeTemp(root, temp))
	}
	return SyncDirIn(root, dir)
}

// writeTemp writes a new, synced temporary file into dir and returns its name.
func writeTemp(root *os.Root, dir string, data []byte, perm fs.FileMode) (string, error) {
	temp := TempName(dir)
	var f *os.File
	err := step("create", func() (err error) {
		f, err = root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err == nil {
		err = fillTemp(f, data, perm)
	}
	if f == nil {
		return "", err
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", errors.Join(err, removeTemp(root, temp))
	}
	return temp, nil
}

// TempName returns a name in dir that begins with TempPrefix and that nothing has.
func TempName(dir string) string { return filepath.Join(dir, TempPrefix+rand.Text()) }

func fillTemp(f *os.File, data []byte, perm fs.FileMode) error {
	if err := step("chmod", func() error { return f.Chmod(perm) }); err != nil {
		return err
	}
	err := step("write", func() error {
		_, err := f.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return Sync(f)
}

// removeTemp tolerates a file that is gone: a rename can report an error after
// it was done.
func removeTemp(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sync makes the content of f durable, which may be open for reading only. The
// entry of f in its directory needs SyncDir.
func Sync(f *os.File) error {
	return step("fsync", func() error { return fsync(f) })
}

func fsync(f *os.File) error {
	fsyncs.Add(1)
	return f.Sync()
}

// SyncData is Sync without what is not needed to read the content again, such as
// times: a file that is overwritten within its length costs the disk less.
func SyncData(f *os.File) error {
	return step("fdatasync", func() error {
		for {
			fsyncs.Add(1)
			if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
				return err
			}
		}
	})
}

// SyncDir makes the entries of the directory dir durable, also those that other processes
// made.
func SyncDir(dir string) error {
	return step("syncdir", func() error {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(fsync(f), f.Close())
	})
}

// SyncDirIn is SyncDir for a directory below another one.
func SyncDirIn(root *os.Root, dir string) error {
	return step("syncdir", func() error {
		f, err := root.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(fsync(f), f.Close())
	})
}

// MkdirAll makes the directory path and whatever parents it lacks, and syncs
// every directory in which it made one. It also syncs the parent of the deepest
// directory that was there already, because the process that made that one may
// have been killed before it could. When MkdirAll returns nil, path survives a
// crash of the machine. perm is subject to the umask.
func MkdirAll(path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	info, err := os.Stat(path)
	if err == nil {
		return syncFound(path, parent, info)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MkdirAll(parent, perm); err != nil {
		return err
	}
	err = step("mkdir", func() error { return os.Mkdir(path, perm) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

func syncFound(path, parent string, info fs.FileInfo) error {
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	}
	err := SyncDir(parent)
	if errors.Is(err, fs.ErrPermission) {
		// A process that may not open the parent did not make path in it: path belongs to the
		// system, and existed before mneme.
		return nil
	}
	return err
}

// Sweep removes the temporary files in dir that were last written longer than
// age ago. A younger one may belong to a write under way in another process.
func Sweep(dir string, age time.Duration) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	_, err = SweepIn(root, ".", age)
	return errors.Join(err, root.Close())
}

// SweepIn is Sweep for a directory below another one, and returns how many files there were.
func SweepIn(root *os.Root, dir string, age time.Duration) (n int, err error) {
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(dir))
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), TempPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) <= age {
			continue
		}
		if err := removeTemp(root, filepath.Join(dir, e.Name())); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
