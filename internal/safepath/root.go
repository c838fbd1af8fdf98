package safepath

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"mneme/internal/durable"
)

// Root is a directory of files that are this process's own: as root, those of root.
// It is opened when it is first needed, and again when another directory has its
// name. No name below it leads out, whatever links are there. Its methods may be
// called at once.
type Root struct {
	path string

	mu   sync.Mutex // guards root
	root *os.Root   // closed with its last user; nil: not opened
}

// NewRoot returns the directory at a path, which need not be there yet.
func NewRoot(path string) *Root { return &Root{path: path} }

// Path is the path of the directory.
func (r *Root) Path() string { return r.path }

// Open opens the directory. It belongs to all callers: none closes it.
// fs.ErrNotExist, ErrUntrusted.
func (r *Root) Open() (*os.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root != nil {
		mine, err := r.root.Stat(".")
		named, errNamed := os.Stat(r.path)
		if err == nil && errNamed == nil && os.SameFile(mine, named) {
			return r.root, nil
		}
	}
	root, err := OpenRoot(r.path)
	r.root = root
	return root, err
}

// OpenRead opens a file of the directory to read it. It makes sure that the directory
// still has its name only where the file is missing.
func (r *Root) OpenRead(name string) (*os.File, error) {
	r.mu.Lock()
	before := r.root
	r.mu.Unlock()
	missing := fs.ErrNotExist
	if before != nil {
		var f *os.File
		if f, missing = before.Open(name); !errors.Is(missing, fs.ErrNotExist) {
			return f, missing
		}
	}
	root, err := r.Open()
	switch {
	case err != nil:
		return nil, err
	case root == before:
		return nil, missing
	}
	return root.Open(name)
}

// ReadFile reads a file of the directory, as OpenRead opens it.
func (r *Root) ReadFile(name string) ([]byte, error) {
	f, err := r.OpenRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f)
}

// ReadAll reads an open file from where it is to its end.
func ReadAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	all.Grow(int(min(info.Size(), maxGrown)) + bytes.MinRead)
	_, err = all.ReadFrom(f)
	return all.Bytes(), err
}

// maxGrown is how much memory ReadAll takes for a file before it has read any of it.
const maxGrown = 64 << 20

// Make is Open for a directory that is made, durably, if it is missing.
func (r *Root) Make(perm fs.FileMode) (*os.Root, error) {
	root, err := r.Open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = MkdirAll(r.path, perm); err == nil {
			root, err = r.Open()
		}
	}
	return root, err
}

// OpenRoot opens a directory. As root, the way there has to be trusted, and the
// directory itself has to be root's and closed to other writers. ErrUntrusted.
func OpenRoot(path string) (*os.Root, error) {
	if !asRoot() {
		root, err := os.OpenRoot(path)
		if info, statErr := os.Stat(path); err != nil && statErr == nil && !info.IsDir() { // of which os has no errno
			err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
		}
		return root, err
	}
	d, err := find(path, rules{trusted: true})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.checkOwn(); err != nil {
		return nil, err
	}
	return os.OpenRoot(d.path) // which means the same for all but root
}

// checkOwn makes sure that a directory is root's alone.
func (d *Dir) checkOwn() error {
	shared, err := d.check()
	if err == nil && shared {
		err = fmt.Errorf("everybody may make files in %s: %w", d.path, ErrUntrusted)
	}
	return err
}

// Check makes sure that OpenRoot would not find a directory of others. One that is
// missing is fine.
func Check(path string) error {
	d, err := find(path, rules{trusted: true})
	if err == nil {
		err = errors.Join(d.checkOwn(), d.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CheckNew makes sure that what root makes at a path stays there: the directory may
// be one that others write in, if they cannot rename what is root's.
func CheckNew(path string) error {
	d, err := find(filepath.Dir(path), rules{trusted: true})
	if err != nil {
		return err
	}
	_, err = d.check()
	return errors.Join(err, d.Close())
}

// MkdirAll is durable.MkdirAll that as root goes only where the way is trusted.
func MkdirAll(path string, perm fs.FileMode) error {
	if !asRoot() {
		return durable.MkdirAll(path, perm)
	}
	d, err := find(path, rules{trusted: true, make: true, perm: perm, durable: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if d.made {
		return nil
	}
	return durable.SyncDir(filepath.Dir(d.path)) // the process that made it may have been killed before
}

// CheckInfo makes sure, as root, that no other user may write to the file or directory at a
// path, which info describes.
func CheckInfo(info fs.FileInfo, path string) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !asRoot() || !ok:
		return nil
	case !isTrusted(st.Uid):
		return belongs(path, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others may write to %s (mode %04o): %w", path, st.Mode&0o7777, ErrUntrusted)
	}
	return nil
}

// CheckRegular makes sure that a path names a regular file, and not a link to one,
// and checks that as CheckInfo does. fs.ErrNotExist.
func CheckRegular(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return checkRegular(info, path)
}

func checkRegular(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file (%v), want one of mneme's own", path, info.Mode().Type())
	}
	return CheckInfo(info, path)
}

// OpenFile opens a regular file in a directory, not through a link, and checks it as
// CheckInfo does.
func OpenFile(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	path := filepath.Join(root.Name(), name)
	if info, err := root.Lstat(name); err == nil {
		if err := checkRegular(info, path); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, flag, perm)
}
