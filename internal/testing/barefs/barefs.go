// Package barefs is the least that a file system in user space can do with the
// same library and the same promises to the kernel as mneme, to measure mneme
// against: a tree in memory, no versions, no other sessions. If it takes longer than a
// target, a mount cannot reach that target. It gives the kernel a directory's files
// unasked, as mneme does. The bytes are in memory too, and written bytes go, at close, into
// one file with one fsync; or else they are in an SQLite database.
package barefs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/fusedev"
)

// fileSystem answers requests. One program at a time writes a file.
type fileSystem struct {
	fuse.RawFileSystem
	server *fusedev.Server
	quiet  bool // no program writes: opens are not sent
	store  store

	mu    sync.RWMutex // guards the tree
	nodes []*node      // by id
}

type node struct {
	attr     fuse.Attr
	path     string
	names    []string
	children map[string]*node
	data     []byte // unless the store alone has it
	sum      digest // by which a database has it
	pushed   bool
	written  bool // was opened for writing once: data is what counts, and is never pushed
}

// store has the bytes of files without writes, and keeps written bytes.
type store interface {
	// take takes over the data that files have before they are mounted.
	take(files []*node) error
	// read returns the bytes of files; the next ones are read after that, most likely.
	read(files, next []*node) ([][]byte, error)
	// keep makes the data of a file that was written durable.
	keep(n *node) error
	close() error
}

// Options say what kind of file system it is.
type Options struct {
	ReadOnly bool // it has no opens, as a read-only mount of mneme's
	Database bool // the bytes are in an SQLite database, from which they are read
}

// Serve mounts the files of a directory, "" being none, at mountpoint until it is
// unmounted. Written bytes go into the file record, which it makes: with opts.Database the
// database, which has the files of the directory too. Nil opts are the zero Options.
func Serve(mountpoint, record, from string, opts *Options) error {
	if opts == nil {
		opts = &Options{}
	}
	b := &fileSystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), quiet: opts.ReadOnly, nodes: []*node{nil}}
	var err error
	if opts.Database {
		b.store, err = createDatabase(record)
	} else {
		b.store, err = createMemory(record)
	}
	if err != nil {
		return err
	}
	return errors.Join(b.serve(mountpoint, from), b.store.close())
}

func (b *fileSystem) serve(mountpoint, from string) error {
	if err := b.load(from); err != nil {
		return err
	}
	o := &fuse.MountOptions{
		FsName: "bare", Name: "bare", Options: []string{"default_permissions"},
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2,
	}
	if b.quiet {
		o.Options = append(o.Options, "ro")
		o.ExtraCapabilities &^= fuse.CAP_ATOMIC_O_TRUNC
	}
	var err error
	if b.server, err = fusedev.Mount(b, mountpoint, nil, o); err != nil {
		return err
	}
	b.server.Serve()
	return nil
}

// load makes the tree of a directory.
func (b *fileSystem) load(from string) error {
	var files []*node
	dirs := map[string]*node{".": b.add(nil, "", syscall.S_IFDIR|0o755, nil)}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path)
		switch {
		case from == "":
			return filepath.SkipAll
		case err != nil:
			return err
		case name == ".":
		case d.IsDir():
			dirs[name] = b.add(dirs[filepath.Dir(name)], d.Name(), syscall.S_IFDIR|0o755, nil)
		default:
			data, err := os.ReadFile(path)
			files = append(files, b.add(dirs[filepath.Dir(name)], d.Name(), syscall.S_IFREG|0o644, data))
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.store.take(files)
}

// add makes a node.
func (b *fileSystem) add(parent *node, name string, mode uint32, data []byte) *node {
	n := &node{attr: fuse.Attr{Ino: uint64(len(b.nodes)), Mode: mode, Nlink: 1, Size: uint64(len(data))}, data: data}
	n.attr.SetTimes(nil, &time.Time{}, &time.Time{})
	if mode&syscall.S_IFDIR != 0 {
		n.children = map[string]*node{}
	}
	b.nodes = append(b.nodes, n)
	if parent != nil {
		n.path = parent.path + "/" + name
		parent.names = append(parent.names, name)
		parent.children[name] = n
	}
	return n
}

func (b *fileSystem) byID(id uint64) *node {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.nodes[id]
}

func (n *node) reply(out *fuse.EntryOut) {
	out.NodeId, out.Attr = n.attr.Ino, n.attr
	out.SetEntryTimeout(time.Hour)
	out.SetAttrTimeout(time.Hour)
}

func (b *fileSystem) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if n := b.nodes[in.NodeId].children[name]; n != nil {
		n.reply(out)
	} else {
		out.SetEntryTimeout(time.Hour)
	}
	return fuse.OK
}

func (b *fileSystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.SetTimeout(time.Hour)
	out.Attr = b.byID(in.NodeId).attr
	return fuse.OK
}

func (b *fileSystem) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return b.GetAttr(nil, &fuse.GetAttrIn{InHeader: in.InHeader}, out)
}

func (b *fileSystem) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if b.quiet {
		return fuse.ENOSYS
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_CACHE_DIR
	return fuse.OK
}

func (b *fileSystem) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	b.mu.RLock()
	n := b.nodes[in.NodeId]
	at := int(in.Offset)
	for ; at < len(n.names); at++ {
		child := n.children[n.names[at]]
		entry := out.AddDirLookupEntry(fuse.DirEntry{Name: n.names[at], Ino: child.attr.Ino, Mode: child.attr.Mode, Off: uint64(at) + 1})
		if entry == nil {
			break
		}
		child.reply(entry)
	}
	b.mu.RUnlock()
	if at == int(in.Offset) && !n.pushed {
		n.pushed = true
		return fuse.ToStatus(b.push(n))
	}
	return fuse.OK
}

// push gives the kernel the files of a directory, which it has listed.
func (b *fileSystem) push(dir *node) error {
	b.mu.RLock()
	files, next := b.filesInLocked(dir), b.filesInLocked(b.afterLocked(dir))
	b.mu.RUnlock()
	contents, err := b.store.read(files, next)
	if err != nil {
		return err
	}
	for i, n := range files {
		if len(contents[i]) > 0 {
			b.server.InodeNotifyStoreCache(n.attr.Ino, 0, contents[i])
		}
	}
	return nil
}

// afterLocked returns the directory that a walk comes to after dir, nil being none.
func (b *fileSystem) afterLocked(dir *node) *node {
	for _, n := range b.nodes[dir.attr.Ino+1:] {
		if n.children != nil {
			return n
		}
	}
	return nil
}

// filesInLocked returns the files of a directory that have no writes.
func (b *fileSystem) filesInLocked(dir *node) []*node {
	var files []*node
	if dir == nil {
		return files
	}
	for _, name := range dir.names {
		if n := dir.children[name]; n.children == nil && !n.written {
			files = append(files, n)
		}
	}
	return files
}

func (b *fileSystem) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(b.nodes[in.NodeId], name, syscall.S_IFDIR|0o755, nil).reply(out)
	return fuse.OK
}

func (b *fileSystem) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.add(b.nodes[in.NodeId], name, syscall.S_IFREG|0o644, nil)
	n.written = true
	n.reply(&out.EntryOut)
	return fuse.OK
}

func (b *fileSystem) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if b.quiet {
		return fuse.ENOSYS
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	if in.Flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
		return fuse.OK
	}
	n := b.byID(in.NodeId)
	var data []byte
	if in.Flags&syscall.O_TRUNC == 0 {
		var err error
		if data, err = b.content(n); err != nil {
			return fuse.ToStatus(err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n.data, n.written = data, true
	return fuse.OK
}

// content returns all bytes of a file.
func (b *fileSystem) content(n *node) ([]byte, error) {
	b.mu.RLock()
	data, written := n.data, n.written
	b.mu.RUnlock()
	if written {
		return data, nil
	}
	contents, err := b.store.read([]*node{n}, nil)
	if err != nil {
		return nil, err
	}
	return contents[0], nil
}

func (b *fileSystem) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	data, err := b.content(b.byID(in.NodeId))
	if err != nil {
		return nil, fuse.ToStatus(err)
	}
	data = data[min(in.Offset, uint64(len(data))):]
	return fuse.ReadResultData(data[:min(len(data), int(in.Size))]), fuse.OK
}

func (b *fileSystem) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n := b.byID(in.NodeId)
	n.data = append(n.data, data...)
	n.attr.Size = uint64(len(n.data))
	return uint32(len(data)), fuse.OK
}

func (b *fileSystem) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if b.quiet {
		return fuse.ENOSYS
	}
	return fuse.ToStatus(b.store.keep(b.byID(in.NodeId)))
}
