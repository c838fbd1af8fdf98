// Package dircas keeps blobs as files below one directory:
// <dir>/<first two hex digits>/<sha256 in hex>. Any number of processes may use
// one directory at once; they need no lock, because a blob appears by rename and
// never changes.
package dircas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mneme/cas"
	"mneme/internal/durable"
	"mneme/internal/safepath"
)

var (
	_ cas.Store   = (*Store)(nil)
	_ cas.Lister  = (*Store)(nil)
	_ cas.Deleter = (*Store)(nil)
	_ cas.Dater   = (*Store)(nil)
)

const (
	dirPerm  = 0o700
	filePerm = 0o600

	defaultSweepAge = time.Hour
)

// Options are the optional settings of a Store. Nil and zero fields stand for
// the defaults.
type Options struct {
	// SweepAge is how long ago a temporary file was last written when it counts
	// as left behind by a killed process and is removed. Default: one hour.
	SweepAge time.Duration
}

// Store is a cas.Store in a directory. It needs no closing.
type Store struct {
	dir      *safepath.Root
	sweepAge time.Duration

	mu    sync.Mutex          // guards ready
	ready map[string]struct{} // directories that this process knows to be durable
}

// Open returns the store in dir. The directory and what it lacks above are made
// by the first Put; until then the store is empty. Open fails when dir is
// something other than a directory, or as root one that others may change
// (safepath.ErrUntrusted). Links below it that lead elsewhere are errors.
func Open(dir string, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	if dir == "" {
		return nil, fmt.Errorf("open blobs: no directory: %w", fs.ErrInvalid)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open blobs in %s: %w", dir, err)
	}
	s := &Store{dir: safepath.NewRoot(abs), sweepAge: opts.SweepAge, ready: make(map[string]struct{})}
	if _, err := s.dir.Open(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open blobs in %s: %w", dir, err)
	}
	if s.sweepAge == 0 {
		s.sweepAge = defaultSweepAge
	}
	return s, nil
}

// path returns the directory and the name of the file that holds d, below the
// store's.
func path(d cas.Digest) (dir, file string) {
	name := d.String()
	dir = name[:2]
	return dir, filepath.Join(dir, name)
}

// Get implements cas.Store. A file that cannot be read is an error that is
// neither cas.ErrNotFound nor cas.ErrCorrupt and keeps its syscall.Errno.
func (s *Store) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := s.read(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("get %v: %w", d, err)
	}
	return data, nil
}

func (s *Store) read(ctx context.Context, d cas.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, file := path(d)
	data, err := s.dir.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cas.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if cas.Sum(data) != d {
		return nil, cas.ErrCorrupt
	}
	return data, nil
}

// Has implements cas.Store.
func (s *Store) Has(ctx context.Context, d cas.Digest) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("has %v: %w", d, err)
	}
	root, err := s.dir.Open()
	if err == nil {
		_, file := path(d)
		_, err = root.Stat(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("has %v: %w", d, err)
	}
	return true, nil
}

// Stored implements cas.Dater.
func (s *Store) Stored(ctx context.Context, d cas.Digest) (size int64, at time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return 0, at, fmt.Errorf("stored %v: %w", d, err)
	}
	root, err := s.dir.Open()
	if err == nil {
		var info fs.FileInfo
		_, file := path(d)
		if info, err = root.Stat(file); err == nil {
			return info.Size(), info.ModTime(), nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = cas.ErrNotFound
	}
	return 0, at, fmt.Errorf("stored %v: %w", d, err)
}

// Sweep removes the temporary files that killed processes have left, and returns how many
// there were.
func (s *Store) Sweep(ctx context.Context) (n int, err error) {
	dirs, err := s.readDir(ctx, ".")
	for _, dir := range dirs {
		if err != nil {
			break
		}
		if !dir.IsDir() {
			continue
		}
		var root *os.Root
		if root, err = s.dir.Open(); err == nil {
			var more int
			more, err = durable.SweepIn(root, dir.Name(), s.sweepAge)
			n += more
		}
	}
	return n, err
}

// beingPut is how long a put may take: a temporary file that is older was left by a process that was killed.
const beingPut = 10 * time.Minute

// ErrBeingPut says that a temporary file has a text to erase.
var ErrBeingPut = fmt.Errorf("a file that a process stores just now, or has left a moment ago: run the command again in %v", beingPut)

// EraseLeft removes the temporary files that killed processes have left, and returns how many there were.
// ErrBeingPut: a file that may be of a living process has a text to erase.
func (s *Store) EraseLeft(ctx context.Context, has func(text []byte) bool) (n int, err error) {
	dirs, err := s.readDir(ctx, ".")
	for _, dir := range dirs {
		if err != nil || !dir.IsDir() {
			continue
		}
		root, openErr := s.dir.Open()
		if openErr != nil {
			return n, openErr
		}
		more, sweepErr := durable.SweepIn(root, dir.Name(), beingPut)
		n, err = n+more, sweepErr
		young, globErr := fs.Glob(root.FS(), dir.Name()+"/"+durable.TempPrefix+"*")
		for _, name := range young {
			if text, readErr := root.ReadFile(name); readErr == nil && has(text) {
				globErr = ErrBeingPut
			}
		}
		err = errors.Join(err, globErr)
	}
	return n, err
}

// List implements cas.Lister. Files that are not named like a blob are passed
// over.
func (s *Store) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	return func(yield func(cas.Digest, error) bool) {
		dirs, err := s.readDir(ctx, ".")
		for i, more := 0, true; i < len(dirs) && more && err == nil; i++ {
			if dirs[i].IsDir() {
				more, err = s.listDir(ctx, dirs[i].Name(), yield)
			}
		}
		if err != nil {
			yield(cas.Digest{}, fmt.Errorf("list: %w", err))
		}
	}
}

// listDir yields the blobs in the directory hh and reports whether the walk is
// to go on.
func (s *Store) listDir(ctx context.Context, hh string, yield func(cas.Digest, error) bool) (bool, error) {
	files, err := s.readDir(ctx, hh)
	for _, f := range files {
		d, parseErr := cas.ParseDigest(f.Name())
		if parseErr != nil || f.Name()[:2] != hh {
			continue
		}
		if !yield(d, nil) {
			return false, nil
		}
		if err = ctx.Err(); err != nil {
			break
		}
	}
	return true, err
}

// readDir reads a directory; one that is not there is empty.
func (s *Store) readDir(ctx context.Context, dir string) (entries []fs.DirEntry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := s.dir.Open()
	if err == nil {
		entries, err = fs.ReadDir(root.FS(), dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Delete implements cas.Deleter. The blob stays deleted after a crash of the
// machine.
func (s *Store) Delete(ctx context.Context, d cas.Digest) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %v: %w", d, err)
	}
	root, err := s.dir.Open()
	if err == nil {
		dir, file := path(d)
		err = root.Remove(file)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			// Also when it was gone: the process that removed it may have been killed before its sync.
			err = durable.SyncDirIn(root, dir)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %v: %w", d, err)
	}
	return nil
}
