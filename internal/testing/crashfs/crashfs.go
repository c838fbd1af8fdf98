// Package crashfs is a file system for tests that can tell what a machine that
// lost its power would have found on its disk. It lives in memory, is mounted
// with FUSE so that real programs use it, and keeps a journal of every call
// that changes something or makes a change durable. A Disk replays the journal
// up to any call and gives the images that a crash could leave there.
//
// The process that mounts it must not touch it: only others may.
package crashfs

import (
	"fmt"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Kind is the kind of a journalled call.
type Kind string

// The kinds of calls. Fsync stands for fdatasync, too.
const (
	Create   Kind = "create"
	Mkdir    Kind = "mkdir"
	Unlink   Kind = "unlink" // of a file or a directory
	Rename   Kind = "rename"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Fsync    Kind = "fsync"
	FsyncDir Kind = "fsyncdir"
)

// Op is one call. Files and directories have numbers that are never used twice;
// the root's is Root.
type Op struct {
	Kind   Kind
	Inode  uint64 // of the file or directory that is made, written to, cut or synced
	Dir    uint64 // of the name
	Name   string
	ToDir  uint64 // of a rename
	ToName string
	Offset int64  // of a write
	Data   []byte // of a write
	Size   int64  // of a truncation
	Path   string // at the time of the call, below the root
}

// String names the call for a message.
func (o Op) String() string {
	switch o.Kind {
	case Write:
		return fmt.Sprintf("write %s %d+%d", o.Path, o.Offset, len(o.Data))
	case Rename:
		return fmt.Sprintf("rename %s to %s", o.Path, o.ToName)
	case Truncate:
		return fmt.Sprintf("truncate %s to %d", o.Path, o.Size)
	}
	return string(o.Kind) + " " + o.Path
}

// Root is the number of the root directory.
const Root uint64 = 1

// FS is a mounted file system. Its methods may be called at once from many
// goroutines.
type FS struct {
	server *fuse.Server

	mu      sync.Mutex // guards the fields below and the content of every node
	journal []Op
	inodes  uint64
	hookAt  int // length of the journal at which to call hook
	hook    func()
}

// Mount mounts an empty file system at dir. It takes root.
func Mount(dir string) (*FS, error) {
	f := &FS{inodes: Root}
	forever := 24 * time.Hour // only the kernel changes anything
	server, err := fs.Mount(dir, &directory{fs: f, id: Root}, &fs.Options{
		MountOptions: fuse.MountOptions{
			FsName: "crashfs", Name: "crashfs", DirectMountStrict: true, DisableXAttrs: true, MaxBackground: 64,
		},
		EntryTimeout: &forever, AttrTimeout: &forever,
	})
	if err != nil {
		return nil, fmt.Errorf("mount at %s: %w", dir, err)
	}
	f.server = server
	return f, nil
}

// Unmount ends the file system. No process may have files open in it.
func (f *FS) Unmount() error {
	if err := f.server.Unmount(); err != nil {
		return err
	}
	f.server.Wait()
	return nil
}

// Len returns how many calls there were.
func (f *FS) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.journal)
}

// Journal returns all calls so far. The caller must not change them.
func (f *FS) Journal() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.journal[:len(f.journal):len(f.journal)]
}

// After calls fn once, during the n-th call from now, before its caller hears
// of it. fn must return at once and not use the FS.
func (f *FS) After(n int, fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hookAt, f.hook = len(f.journal)+n, fn
}

// noteLocked appends to the journal.
func (f *FS) noteLocked(op Op) {
	f.journal = append(f.journal, op)
	if f.hook != nil && len(f.journal) >= f.hookAt {
		hook := f.hook
		f.hook = nil
		hook()
	}
}

// numberLocked returns a number for a new file or directory.
func (f *FS) numberLocked() uint64 {
	f.inodes++
	return f.inodes
}
