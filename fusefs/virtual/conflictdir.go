package virtual

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"mneme/session/conflict"
)

// conflictDir is the directory of one conflict, as it was when it was looked up.
type conflictDir struct {
	place
	kept Conflicts
	gone *removals
	id   int
	own  *conflict.About // of one that this session may dismiss; nil: it may not
}

// conflictFiles are the files that a conflict may have, in the order of their names.
var conflictFiles = []string{conflict.AboutFile, conflict.BaseFile, conflict.TheirsFile, conflict.YoursFile}

func (d *conflictDir) Fixed() bool { return false }

func (d *conflictDir) Lookup(_ context.Context, name string) (Node, error) { return d.lookup(name) }

func (d *conflictDir) lookup(name string) (Node, error) {
	if !slices.Contains(conflictFiles, name) || d.gone.isRemoved(d.id, name) {
		return nil, syscall.ENOENT
	}
	f := &conflictFile{place: d.file(name).copied(), kept: d.kept, id: d.id, name: name}
	data, err := f.read()
	if err != nil {
		return nil, err
	}
	f.size = int64(len(data))
	return f, nil
}

func (d *conflictDir) List(context.Context) ([]Entry, error) {
	var entries []Entry
	for i, name := range conflictFiles {
		switch _, err := d.lookup(name); {
		case err == nil:
			entries = append(entries, Entry{name, syscall.S_IFREG, uint64(i) + 1})
		case !errors.Is(err, syscall.ENOENT):
			return nil, err
		}
	}
	return entries, nil
}

// Remove takes a file out of sight: a program that removes a directory with everything in it
// removes that file first. Its content stays until the conflict expires.
func (d *conflictDir) Remove(name string, dir bool) error {
	_, err := d.lookup(name)
	switch {
	case err != nil:
		return err
	case dir:
		return syscall.ENOTDIR
	case d.own == nil:
		return ErrNotYours
	}
	d.gone.remove(d.id, name)
	return nil
}

// conflictFile is a file of a conflict, as it was when it was looked up.
type conflictFile struct {
	place
	kept Conflicts
	id   int
	name string
	size int64
}

// Constant is true of the text that was read, and of the text that was there instead. The
// conflict's session may lose more in the same conflict, and settle it.
func (f *conflictFile) Constant() bool {
	return f.name == conflict.BaseFile || f.name == conflict.TheirsFile
}

func (f *conflictFile) Stat() (int64, time.Time) { return f.size, f.made }

func (f *conflictFile) Text(context.Context) ([]byte, error) { return f.read() }

func (f *conflictFile) read() ([]byte, error) {
	data, err := f.kept.Read(f.id, f.name)
	switch {
	case errors.Is(err, conflict.ErrNotFound), err == nil && data == nil:
		return nil, syscall.ENOENT // it has been settled meanwhile, or has none
	case err != nil:
		return nil, err
	}
	return data, nil
}
