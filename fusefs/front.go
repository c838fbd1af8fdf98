package fusefs

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/fusefs/virtual"
	"mneme/internal/fusedev"
	"mneme/memory"
)

// front answers requests below .mneme, and passes the rest on. No node there is in the tree: a
// request that names a directory looks the name up again. The node that it finds is known by the
// number of its place for as long as the kernel knows it, or a program has it open. front passes
// changes on, too: they are refused like all changes that no program may make.
type front struct {
	fusedev.FileSystem // fs
	fs                 *fileSystem
	roots              map[string]virtualRoot // by the store's id
}

// virtualRoot is .mneme in a store.
type virtualRoot struct {
	*store
	dir virtual.Dir
}

func newFront(fs *fileSystem) *front {
	f := &front{FileSystem: fs, fs: fs, roots: map[string]virtualRoot{}}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, s := range fs.stores {
		s.control = virtual.Control(told{s}, fs.since, &virtual.Options{NoOpen: fs.noOpen, GuideChanges: s.memory.RightChanges()})
		f.roots[s.id()] = virtualRoot{s, s.control}
	}
	return f
}

// node returns what the kernel knows by a number, and its store; nil: nothing.
func (f *front) node(id uint64) (*store, virtual.Node) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	v := f.fs.virtual.inodes[id]
	if v == nil {
		return nil, nil
	}
	return f.roots[v.at.store].store, v.node
}

// control returns .mneme, if it is that which is looked up.
func (f *front) control(header *fuse.InHeader, name string) (root virtualRoot, ok bool) {
	if name != memory.ReservedName {
		return root, false
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	n := f.fs.node(header.NodeId)
	if n == nil || storeOf(n) == nil || storeOf(n).tree.Root() != n {
		return root, false
	}
	return f.roots[storeOf(n).id()], true
}

// InlineLookup implements fusedev.Inline.
func (f *front) InlineLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	if f.fs.virtual.has(header.NodeId) {
		return fuse.OK, false
	}
	if root, ok := f.control(header, name); ok {
		f.reply(root.store, root.dir, name, out)
		return fuse.OK, true
	}
	return f.FileSystem.InlineLookup(header, name, out)
}

// Lookup implements fuse.RawFileSystem.
func (f *front) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if root, ok := f.control(header, name); ok {
		f.reply(root.store, root.dir, name, out)
		return fuse.OK
	}
	if !f.fs.virtual.has(header.NodeId) {
		return f.FileSystem.Lookup(cancel, header, name, out)
	}
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err)
	}
	s, n := f.node(header.NodeId)
	dir, isDir := n.(virtual.Dir)
	switch {
	case n == nil:
		return fuse.Status(syscall.ESTALE)
	case !isDir:
		return fuse.ENOTDIR
	}
	// A pack is built from the contents of the store, which may be far away, as its past may be.
	return f.fs.beside(cancel, header.Pid, func(c *call) fuse.Status {
		found, err := dir.Lookup(c.ctx, canonical)
		var missing *virtual.MissingError
		switch {
		case err == syscall.ENOENT:
			return fuse.ENOENT
		case errors.As(err, &missing):
			s.errors.AddKind("--at", missing.Path, "look up "+s.located(missing.Path, err))
			return fuse.ENOENT
		case err != nil:
			return s.fail("look up", path.Join(dir.Path(), canonical), err)
		case !c.answers():
			return fuse.EINTR
		}
		f.reply(s, found, name, out)
		return fuse.OK
	})
}

// reply fills out an entry for a node that was looked up by a name, and counts the
// reference that the kernel gets. It may keep a lasting name that has no other spelling.
func (f *front) reply(s *store, n virtual.Node, name string, out *fuse.EntryOut) {
	out.Attr = f.attr(n)
	out.SetAttrTimeout(lifeOf(n))
	if n.Lasting() && tree.HasOneForm(name) {
		out.SetEntryTimeout(forever)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	v := f.fs.virtual.enterLocked(s.id(), n, f.fs.virtual.numberLocked(virtualPlace{s.id(), n.Path()}))
	v.lookups++
	f.fs.handing.markVirtualLocked(v)
	out.NodeId, out.Ino, out.Generation = v.id, v.id, 1
}

// Forget implements fuse.RawFileSystem.
func (f *front) Forget(id, count uint64) {
	if !f.fs.virtual.has(id) {
		f.FileSystem.Forget(id, count)
		return
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if v := f.fs.virtual.inodes[id]; v != nil {
		v.lookups -= min(count, v.lookups)
		f.collectVirtualLocked(v)
	}
}

func (f *front) collectVirtualLocked(v *virtualInode) {
	if f.fs.virtual.collectLocked(v) {
		f.fs.handing.markVirtualLocked(v)
	}
}

// lifeOf is how long the kernel may keep what a node looks like. By the time of some directories
// it sees whether a list that it has is still right.
func lifeOf(n virtual.Node) time.Duration {
	switch n := n.(type) {
	case virtual.File:
		if !n.Constant() {
			return 0
		}
	case virtual.Dir:
		if virtual.IsDated(n) {
			return 0
		}
	}
	return forever
}

// attr is the attributes of a node, except its number. It may take locks.
func (f *front) attr(n virtual.Node) (attr fuse.Attr) {
	changed := n.Time()
	if file, ok := n.(virtual.File); ok {
		var size int64
		size, changed = file.Stat()
		attr.Size, attr.Blocks = uint64(size), uint64(size+511)/512
	}
	attr.Mode = n.Mode()&syscall.S_IFMT | f.fs.perm(n.Mode()&0o777)
	attr.Nlink = 1
	attr.Uid, attr.Gid = f.fs.opts.UID, f.fs.opts.GID
	attr.Blksize = blockSize
	attr.SetTimes(&changed, &changed, &changed)
	return attr
}

// GetAttr implements fuse.RawFileSystem.
func (f *front) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.GetAttr(cancel, in, out)
	}
	_, n := f.node(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	out.Attr = f.attr(n)
	out.Ino = in.NodeId
	out.SetTimeout(lifeOf(n))
	return fuse.OK
}

// Statx implements fuse.RawFileSystem.
func (f *front) Statx(cancel <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	if !f.fs.virtual.has(in.NodeId) {
		return f.FileSystem.Statx(cancel, in, out)
	}
	_, n := f.node(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	attr := f.attr(n)
	attr.Ino = in.NodeId
	out.SetTimeout(lifeOf(n))
	out.Statx = statxOf(&attr, n.Time())
	return fuse.OK
}

// GetXAttr implements fuse.RawFileSystem.
func (f *front) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	if f.fs.virtual.has(header.NodeId) && strings.HasPrefix(attr, xattrPrefix) {
		return 0, fuse.ENOATTR
	}
	return f.FileSystem.GetXAttr(cancel, header, attr, dest)
}

// ListXAttr implements fuse.RawFileSystem.
func (f *front) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	if f.fs.virtual.has(header.NodeId) {
		return 0, fuse.OK
	}
	return f.FileSystem.ListXAttr(cancel, header, dest)
}

// Unlink implements fuse.RawFileSystem.
func (f *front) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	if f.fs.virtual.has(header.NodeId) {
		return f.remove(header.NodeId, name, false)
	}
	return f.FileSystem.Unlink(cancel, header, name)
}

// Rmdir implements fuse.RawFileSystem.
func (f *front) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	if f.fs.virtual.has(header.NodeId) {
		return f.remove(header.NodeId, name, true)
	}
	return f.FileSystem.Rmdir(cancel, header, name)
}

// remove removes a name below .mneme: a file of a conflict, or with rmdir a conflict,
// which is dismissed by that.
func (f *front) remove(id uint64, name string, rmdir bool) fuse.Status {
	canonical, err := memory.ParseName(name)
	if err != nil {
		return absent(err)
	}
	s, n := f.node(id)
	dir, isDir := n.(virtual.Dir)
	switch {
	case n == nil:
		return fuse.Status(syscall.ESTALE)
	case !isDir:
		return fuse.ENOTDIR
	case s.readOnly():
		return fuse.EROFS
	}
	at := n.Path() // of the conflict
	if rmdir {
		at = path.Join(at, canonical)
	}
	err = dir.Remove(canonical, rmdir)
	errno, isErrno := err.(syscall.Errno)
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, virtual.ErrNotYours):
		s.errors.Add(at, fmt.Sprintf("conflict %s of store %s is another session's; "+
			"only that session, or a person with `mneme conflicts`, can settle it", path.Base(at), s.slug()))
		return fuse.EPERM
	case isErrno:
		return fuse.Status(errno)
	}
	return s.fail("remove", at, err)
}

// isOfPast reports whether a path is below the directories of the past.
func isOfPast(at string) bool {
	return strings.HasPrefix(at, virtual.At+"/") || strings.HasPrefix(at, virtual.Versions+"/")
}

// adopt looks up again the nodes below .mneme that the kernel knows, and gives them the numbers
// that they had. It leaves out nodes that no longer exist: the kernel is told that the name must
// be looked up. It does the same with packs that no program has open, since building one takes
// time, and with files of the past, of which there may be as many as the history has. All other
// nodes are adopted after it.
func (f *front) adopt(in *inherited) {
	for i, s := range f.fs.stores {
		if i < len(in.state.Pinned) { // else no program had asked for a pack, or the process ran an earlier version of mneme
			s.pinned.Store(in.state.Pinned[i])
		}
	}
	opened := map[uint64]bool{}
	for _, note := range in.handles {
		opened[note.Node] = true
	}
	for id, note := range in.nodes {
		at, s := in.path(note), f.fs.storeAt(note.Store)
		if s == nil || at != virtual.Root && !strings.HasPrefix(at, virtual.Root+"/") {
			continue
		}
		f.fs.virtual.inherited[id] = true
		f.fs.notify.Content(id) // what is kept without a timeout may be of another program, or out of date
		isDir := isDirMode(note.Mode)
		if !opened[id] && (strings.HasPrefix(at, virtual.Packs+"/") || isOfPast(at) && !isDir && !f.fs.noOpen) {
			continue
		}
		n, err := virtual.Find(f.fs.ctx, f.roots[s.id()].dir, at, isDir)
		if err != nil || n.Mode()&syscall.S_IFMT != note.Mode&syscall.S_IFMT {
			continue
		}
		f.fs.mu.Lock()
		f.fs.virtual.enterLocked(s.id(), n, id).lookups = manyLookups
		f.fs.mu.Unlock()
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, note := range in.handles {
		if v := f.fs.virtual.inodes[note.Node]; v != nil {
			f.enterLocked(note.FH, &virtualHandle{inode: v})
		}
	}
}
