// Package virtual is the tree below .mneme in a store, which programs cannot write: texts about
// the mount, and the store's past. It has one type per directory. Nodes are not kept: each lookup
// of a name returns a new node, which describes the file at that time.
package virtual

import (
	"context"
	"errors"
	"hash/fnv"
	"path"
	"strings"
	"syscall"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// Root is the path of the directory in the store. No directory lists it.
const Root = "/.mneme"

// Node is a file or directory: a File or a Dir.
type Node interface {
	// Path is its place in the store: "/.mneme/errors".
	Path() string
	// Mode is its type and the permissions that it has at most.
	Mode() uint32
	// Time is when it was made.
	Time() time.Time
	// Lasting reports whether its name will always be its own: the kernel may keep it.
	Lasting() bool
}

// Dir is a directory. Its methods may have to wait for the disk, or for the log. A name
// that is not there is syscall.ENOENT, by itself, or a *MissingError; other errors say
// what is wrong with the disk or the log.
type Dir interface {
	Node
	// Fixed reports whether it always lists the same names.
	Fixed() bool
	Lookup(ctx context.Context, name string) (Node, error)
	// List returns the names in it, in the order of their places, which the caller must not
	// change. A name that can be looked up need not be among them.
	List(ctx context.Context) ([]Entry, error)
	// Remove answers the removal of a name, as a directory or as a file: with
	// syscall.EROFS, EISDIR or ENOTDIR by itself, or with ErrNotYours.
	Remove(name string, dir bool) error
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Mode uint32 // the type
	// Place is where it stands in the list, from 1 on: the same in every list, whatever
	// else comes and goes, and in every process.
	Place uint64
}

// File is a file.
type File interface {
	Node
	// Constant reports whether its text stays as it is, unless the mount is told of a
	// change: the kernel may keep it.
	Constant() bool
	// Stat returns the length of the text, and when that has changed. It is 0 where
	// there is a text of its own for each reader.
	Stat() (size int64, changed time.Time)
	// Text returns the text, which the caller may keep and must not change.
	Text(ctx context.Context) ([]byte, error)
}

// Store is what a mount tells of a store. Its methods may be called at once from many
// goroutines.
type Store interface {
	README() []byte // which is always the same, unless the mount is told
	Note() []byte   // likewise
	Status() []byte
	Errors() []byte
	// Conflicts are those that the directory conflicts shows; nil: there is none.
	Conflicts() Conflicts
	// Memory is the store itself, of whose past at, versions and events tell.
	Memory() *memory.Store
	// Event returns a commit as a line of events.
	Event(*versionlog.Commit) ([]byte, error)
	// Pack returns the pack that a request asks for, and the number of the commit as of which it
	// is; a *MissingError without a path: there is no such pack. A pack with a number is always
	// the same.
	Pack(context.Context, PackRequest) (text []byte, seq uint64, err error)
	// Pin pins a commit, unless one is pinned already or seq is 0, and returns the number of
	// the one that is; 0: none.
	Pin(seq uint64) uint64
}

// PackRequest is what the name of a file in .mneme/pack asks for.
type PackRequest struct {
	MaxBytes int     // of the text
	Seq      uint64  // of the commit after which the store is shown; 0 is the newest
	Since    *uint64 // only what has changed after that commit; nil: everything
}

// Conflicts are what is kept of a store's conflicts, whichever session lost. Other
// processes add and remove some, so that every look at the directory looks at the disk.
// The methods may be called at once from many goroutines.
type Conflicts interface {
	// IDs returns the numbers of those that are not settled, in order.
	IDs() ([]int, error)
	// About and Read are those of conflict.Store, for settled ones, too.
	About(id int) (conflict.About, error)
	Read(id int, name string) ([]byte, error)
	// Own reports whether this session may dismiss it.
	Own(conflict.About) bool
	// Dismiss settles it.
	Dismiss(conflict.About) error
}

// MissingError says of a name that asks for something, in at or pack, why there is nothing. The
// errno is ENOENT.
type MissingError struct {
	Path string // of the name
	Err  error
}

func (e *MissingError) Error() string { return e.Err.Error() }

func (e *MissingError) Unwrap() error { return e.Err }

// ErrNotYours says that another session's conflict was to be removed.
var ErrNotYours = errors.New("the conflict is another session's")

// Number is the inode number of a place in a store: the same in every process that
// serves a mount of it. Numbers of other files are small.
func Number(store, path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(store + path))
	return h.Sum64() | 1<<63
}

// Find returns what is at a path below root, or syscall.ENOENT. A directory of the past is
// not asked whether it is there, neither the one at the path, if that is known to be a
// directory, nor those above: of these there may be as many as a program has looked at.
func Find(ctx context.Context, root Dir, path string, isDir bool) (Node, error) {
	rest, ok := strings.CutPrefix(path, root.Path())
	var n Node = root
	for rest != "" && ok {
		var dir Dir
		var name string
		name, rest, _ = strings.Cut(rest[1:], "/")
		if rest != "" {
			rest = "/" + rest
		}
		if dir, ok = n.(Dir); !ok {
			break
		}
		if d, ok := dir.(assuming); ok && (rest != "" || isDir) {
			n = d.sub(name)
			continue
		}
		var err error
		if n, err = again(ctx, dir, name); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, syscall.ENOENT
	}
	return n, nil
}

// placing is a directory in which a name may now mean another node than the one that has a place.
type placing interface {
	again(ctx context.Context, name string) (Node, error)
}

// assuming is a directory that makes a node of a directory in it without looking whether
// that is there.
type assuming interface {
	sub(name string) Dir
}

// again returns what has a place in a directory.
func again(ctx context.Context, dir Dir, name string) (Node, error) {
	if p, ok := dir.(placing); ok {
		return p.again(ctx, name)
	}
	return dir.Lookup(ctx, name)
}

// place is what all nodes have.
type place struct {
	path    string
	mode    uint32
	made    time.Time
	lasting bool
}

func (p *place) Path() string    { return p.path }
func (p *place) Mode() uint32    { return p.mode }
func (p *place) Time() time.Time { return p.made }
func (p *place) Lasting() bool   { return p.lasting }

// file returns the place of a file in p, a directory.
func (p *place) file(name string) place {
	return place{path: path.Join(p.path, name), mode: syscall.S_IFREG | 0o444, made: p.made}
}

// dir returns the place of a directory in p.
func (p *place) dir(name string) place {
	return place{path: path.Join(p.path, name), mode: syscall.S_IFDIR | 0o555, made: p.made}
}

// ownersWrite is the write permission that the texts of memories and their directories show, for
// the sake of copies, which get the mode: the owner of a copy may change and remove them. A
// program that writes here is told EROFS all the same.
const ownersWrite = 0o200

// copied returns p with the permission that copies need.
func (p place) copied() place {
	p.mode |= ownersWrite
	return p
}
