package dircas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"mneme/cas"
	"mneme/internal/durable"
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
		// Somebody removed a directory that was ready: once more from the top.
		s.forget()
		err = s.put(d, data)
	}
	if err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, err)
	}
	return d, nil
}

func (s *Store) put(d cas.Digest, data []byte) error {
	dir, file := s.path(d)
	if err := s.prepare(dir); err != nil {
		return err
	}
	if syncGood(file, d) {
		return durable.SyncDir(dir)
	}
	return durable.WriteFile(file, data, filePerm)
}

// syncGood reports whether file holds the bytes of d, and if so makes them
// durable: whoever wrote the file may have been cut off before it was. Whatever
// is wrong with the file, writing it anew is the cure.
func syncGood(file string, d cas.Digest) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return err == nil && cas.Sum(data) == d && durable.Sync(f) == nil
}

// prepare makes dir, one of the directories that hold files, and sees to it
// that it survives a crash, even if another process made it and was cut off.
func (s *Store) prepare(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ready[dir]; ok {
		return nil
	}
	if _, ok := s.ready[s.dir]; !ok {
		if err := durable.MkdirAll(s.dir, dirPerm); err != nil {
			return err
		}
		s.ready[s.dir] = struct{}{}
	}
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return err
	}
	if err := durable.Sweep(dir, s.sweepAge); err != nil {
		return err
	}
	s.ready[dir] = struct{}{}
	return nil
}

func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ready)
}
