package snapshot

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// Source has the objects of snapshots by their names.
type Source interface {
	// Get returns an object. Of one that has more than limit bytes it returns an error, or
	// more than limit bytes. The error is an fs.ErrNotExist or a versionlog.ErrNotFound
	// where there is no such object.
	Get(ctx context.Context, name string, limit int) ([]byte, error)
}

// Sink keeps the objects of snapshots.
type Sink interface {
	// Put keeps an object. It is given the manifest last, and pages before, whose names
	// are made of their contents.
	Put(ctx context.Context, name string, data []byte) error
}

// FromFS returns the objects that are files.
func FromFS(files fs.FS) Source { return fileSource{files} }

type fileSource struct{ files fs.FS }

func (f fileSource) Get(_ context.Context, name string, limit int) ([]byte, error) {
	file, err := f.files.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	return data, errors.Join(err, file.Close())
}
