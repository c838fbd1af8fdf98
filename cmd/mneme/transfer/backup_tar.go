package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mneme/internal/durable"
)

// tarRoot is the one directory in a tar of a backup.
const tarRoot = "mneme"

// publishDir renames a finished copy to its name, which may be that of an empty directory.
func publishDir(dir, path string) error {
	if err := unix.Rename(dir, path); err != nil { // os.Rename refuses any directory
		return &os.LinkError{Op: "rename", Old: dir, New: path, Err: err}
	}
	return durable.SyncDir(filepath.Dir(path))
}

// publishTar packs a finished copy into a file, and renames that.
func publishTar(ctx context.Context, dir, last, temp, path string) error {
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = writeTar(ctx, f, dir, last)
	if err == nil {
		err = durable.Sync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return durable.RenameNew(temp, path)
}

// writeTar packs a copy, with a given file last.
func writeTar(ctx context.Context, w io.Writer, dir, last string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || path == filepath.Join(dir, last) {
			return err
		}
		return addToTar(ctx, t, dir, path)
	})
	if err == nil {
		err = addToTar(ctx, t, dir, filepath.Join(dir, last))
	}
	if err != nil {
		return err
	}
	return t.Close()
}

func addToTar(ctx context.Context, t *tar.Writer, dir, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	header.Name = filepath.ToSlash(filepath.Join(tarRoot, name))
	if info.IsDir() {
		header.Name += "/"
	}
	if err := t.WriteHeader(header); err != nil || info.IsDir() {
		return err
	}
	_, err = io.Copy(t, ctxReader{ctx, f})
	return err
}

// ctxReader reads until its context ends.
type ctxReader struct {
	ctx context.Context
	io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
