// Package fusefs serves memory stores as a FUSE file system on Linux: a
// read-only root directory that lists the stores, and every store as a
// directory of plain files.
package fusefs

import (
	"context"
	"log/slog"

	"mneme/memory"
)

// Options configure a mount; the zero value is the default.
type Options struct {
	UID, GID uint32       // owner shown for every file and directory
	Logger   *slog.Logger // nil discards
	Debug    bool         // log every FUSE request to standard error
}

// Server is a mounted file system.
type Server struct{}

// Mount mounts stores at dir, which must be an existing directory, each below
// the name of its slug; a store opened read-only is read-only in the mount.
// A mount that a dead daemon left at dir is cleared first. When it returns the
// mount is ready for use.
func Mount(ctx context.Context, dir string, stores []*memory.Store, opts *Options) (*Server, error) {
	return nil, nil
}

// Wait returns when the file system is no longer mounted and everything that
// was dirty has been committed or given up with a log entry.
func (s *Server) Wait() {}

// Close commits what is dirty, unmounts and waits. When the mount is busy it
// is detached from the directory tree all the same, so that it goes away with
// its last user. Close may be called more than once.
func (s *Server) Close() error { return nil }
