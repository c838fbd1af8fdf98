// Package barefs is the least that a file system in user space can do with the
// same library and the same promises to the kernel as mneme, to measure mneme
// against: a tree in memory, no store, no versions, no other sessions. What it
// takes longer than a target, a mount cannot reach. It gives the kernel a
// directory's files unasked, as mneme does; what is written to it goes, at close,
// into one file with one fsync.
package barefs

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// fileSystem answers requests. One program at a time writes a file.
type fileSystem struct {
	fuse.RawFileSystem
	server *fuse.Server
	quiet  bool // nobody writes: there are no opens
	record *os.File

	mu    sync.RWMutex // guards the tree
	nodes []*node      // by id
}

type node struct {
	attr     fuse.Attr
	names    []string
	children map[string]*node
	data     []byte
	pushed   bool
}

// Serve mounts the files of a directory, "" being none, at mountpoint until it is
// unmounted. What is written goes into the file record. A read-only mount has
// no opens, as one of mneme's.
func Serve(mountpoint, record, from string, readOnly bool) error {
	b := &fileSystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), quiet: readOnly, nodes: []*node{nil}}
	var err error
	if b.record, err = os.Create(record); err != nil {
		return err
	}
	dirs := map[string]*node{".": b.add(nil, "", syscall.S_IFDIR|0o755, nil)}
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
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
			b.add(dirs[filepath.Dir(name)], d.Name(), syscall.S_IFREG|0o644, data)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	o := &fuse.MountOptions{
		Options: []string{"default_permissions"}, DisableSplice: true, DirectMountStrict: os.Geteuid() == 0,
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2,
	}
	if b.quiet {
		o.Options = append(o.Options, "ro")
		o.ExtraCapabilities &^= fuse.CAP_ATOMIC_O_TRUNC
	}
	if b.server, err = fuse.NewServer(b, mountpoint, o); err != nil {
		return err
	}
	b.server.Serve()
	return b.record.Close()
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
		for _, name := range n.names {
			if c := n.children[name]; len(c.data) > 0 {
				b.server.InodeNotifyStoreCache(c.attr.Ino, 0, c.data)
			}
		}
	}
	return fuse.OK
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
	b.add(b.nodes[in.NodeId], name, syscall.S_IFREG|0o644, nil).reply(&out.EntryOut)
	return fuse.OK
}

func (b *fileSystem) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if b.quiet {
		return fuse.ENOSYS
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	if in.Flags&syscall.O_TRUNC != 0 {
		b.byID(in.NodeId).data = nil
	}
	if in.Flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
	}
	return fuse.OK
}

func (b *fileSystem) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	data := b.byID(in.NodeId).data
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
	if _, err := b.record.Write(b.byID(in.NodeId).data); err != nil {
		return fuse.ToStatus(err)
	}
	return fuse.ToStatus(b.record.Sync())
}
