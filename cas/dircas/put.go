package dircas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mneme/cas"
	"mneme/internal/durable"
	"mneme/internal/safepath"
)

// Put implements cas.Store. It costs two fsyncs, of the file and of its
// directory, and more only where this process puts into a directory for the
// first time.
func (s *Store) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	d := cas.Sum(data)
	if err := ctx.Err(); err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, err)
	}
	err := s.put(d, data)
	if errors.Is(err, fs.ErrNotExist) {
		// Another process removed a directory that was ready: retry from the top.
		s.forget()
		err = s.put(d, data)
	}
	if err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, err)
	}
	return d, nil
}

func (s *Store) put(d cas.Digest, data []byte) error {
	dir, file := path(d)
	root, err := s.prepare(dir)
	if err != nil {
		return err
	}
	if syncGood(root, file, d) {
		now := time.Now()
		// For cas.Dater: where that fails, the blob looks older than it is.
		if err := root.Chtimes(file, now, now); !errors.Is(err, fs.ErrNotExist) {
			return durable.SyncDirIn(root, dir)
		}
	}
	return durable.WriteFile(root, file, data, filePerm)
}

// syncGood reports whether file holds the bytes of d, and if so makes them
// durable: the process that wrote it may have been killed before its sync. Writing the file
// again repairs any fault of it.
func syncGood(root *os.Root, file string, d cas.Digest) bool {
	f, err := root.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return err == nil && cas.Sum(data) == d && durable.Sync(f) == nil
}

// prepare makes dir, one of the directories that hold files, and sees to it
// that it survives a crash, even if another process made it and was cut off.
func (s *Store) prepare(dir string) (*os.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		if err := safepath.MkdirAll(s.dir.Path(), dirPerm); err != nil {
			return nil, err
		}
	}
	root, err := s.dir.Open()
	if err != nil {
		return nil, err
	}
	if _, ok := s.ready[dir]; ok {
		return root, nil
	}
	if err := root.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := root.Stat(dir)
	if err == nil {
		err = safepath.CheckInfo(info, filepath.Join(s.dir.Path(), dir))
	}
	if err != nil {
		return nil, err
	}
	if err := durable.SyncDirIn(root, "."); err != nil {
		return nil, err
	}
	if _, err := durable.SweepIn(root, dir, s.sweepAge); err != nil {
		return nil, err
	}
	s.ready[dir] = struct{}{}
	return root, nil
}

func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ready)
}
