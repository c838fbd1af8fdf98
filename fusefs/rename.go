package fusefs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/fusefs/tree"
	"mneme/internal/quote"
	"mneme/memory"
)

// move is one rename on its way.
type move struct {
	s *store
	*tree.Move
}

// Rename implements fuse.RawFileSystem.
func (fs *fileSystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if in.Flags&^unix.RENAME_NOREPLACE != 0 {
		return fuse.EINVAL // no exchange, no whiteout
	}
	req := *in
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status {
		defer fs.tellUnheard(c, kernelName{req.NodeId, oldName}, kernelName{req.Newdir, newName})
		return fs.renameBeside(c.ctx, &req, oldName, newName)
	})
}

func (fs *fileSystem) renameBeside(ctx context.Context, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	from, status := fs.directoryToChange(ctx, in.NodeId)
	fs.mu.RLock()
	to, toStatus := fs.writableLocked(in.Newdir)
	fs.mu.RUnlock()
	switch {
	case !status.Ok():
		return status
	case !toStatus.Ok():
		return toStatus
	case storeOf(from) != storeOf(to):
		return fuse.EXDEV
	}
	if status := fs.reachContent(ctx, in.NodeId, oldName); !status.Ok() {
		return status
	}
	if status := fs.reachContent(ctx, in.Newdir, newName); !status.Ok() {
		return status
	}
	release, status := storeOf(from).claimNames(ctx, nameIn{from, oldName}, nameIn{to, newName})
	if !status.Ok() {
		return status
	}
	var n *tree.Entry
	if status = fuse.EINTR; ctx.Err() == nil {
		n, status = fs.rename(in, from, oldName, newName)
	}
	release()
	storeOf(from).dropSettled()
	if status.Ok() && n != nil {
		status = fs.commitIdle(n)
	}
	return status
}

// commitIdle commits what was written to a scratch file, closed long ago, that
// has got the name of a memory.
func (fs *fileSystem) commitIdle(n *tree.Entry) fuse.Status {
	fs.mu.Lock()
	st := stageOf(n)
	idle := st != nil && st.writers == 0 && st.dirty && !n.IsUnloggedLocked()
	if idle {
		st.writers++
	}
	fs.mu.Unlock()
	if !idle {
		return fuse.OK
	}
	status := fs.commitFile(n, st, saved)
	if !status.Ok() { // its close was acknowledged
		fs.keepUnheard(n, st, status)
	}
	fs.endWriter(n, st, fs.endWriteLocked)
	return status
}

// rename does it, and returns what has moved; nil when nothing had to. The caller
// has claimed both names.
func (fs *fileSystem) rename(in *fuse.RenameIn, from *tree.Entry, oldName, newName string) (*tree.Entry, fuse.Status) {
	fs.mu.Lock()
	m, status := fs.newMoveLocked(in, from, oldName, newName)
	// The kernel takes the file that it named for the file that has moved, and may not know yet
	// which one that is.
	known := m == nil || fs.notify.Told(inodeOf(m.Entry).cache.NameNotice())
	fs.mu.Unlock()
	if m == nil || m.Entry == m.Target {
		return nil, status
	}
	if m.Target != nil && in.Flags&unix.RENAME_NOREPLACE != 0 {
		return nil, fuse.Status(syscall.EEXIST)
	}
	named := m.Entry
	err := m.s.bury(m.To, m.New, m.Entry)
	if err != nil {
		return nil, m.s.fail("rename "+quote.Name(oldName)+" to", newName, err)
	}
	if m.Entry.IsDir() {
		err = fs.renameDir(m)
	} else {
		err = fs.renameFile(m)
	}
	if errno, ok := err.(syscall.Errno); ok && errno == fs.opts.ConflictErrno {
		return nil, fuse.Status(errno) // .mneme/errors has more than that
	}
	if err != nil {
		return nil, m.s.fail("rename "+quote.Name(oldName)+" to", newName, err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if m.Old != oldName {
		fs.notify.entryLocked(m.From, m.Old)
	}
	if m.New != newName || m.Entry != named || !known {
		fs.notify.entryLocked(m.To, m.New)
	}
	return m.Entry, fuse.OK
}

// newMoveLocked checks what does not depend on the log.
func (fs *fileSystem) newMoveLocked(in *fuse.RenameIn, from *tree.Entry, oldName, newName string) (*move, fuse.Status) {
	old, err := memory.ParseName(oldName)
	if err != nil {
		return nil, absent(err)
	}
	n := from.ChildLocked(old)
	if n == nil {
		if from == storeOf(from).tree.Root() && old == memory.ReservedName {
			return nil, fuse.EROFS
		}
		return nil, fuse.ENOENT
	}
	below := 0
	if n.IsDir() {
		below = 1
	}
	to, name, status := fs.newNameLocked(in.Newdir, newName, below)
	if !status.Ok() {
		return nil, status
	}
	fromPath, _ := n.PathLocked()
	toPath, _ := to.PathLocked() // place has seen that it has one
	return &move{storeOf(from), &tree.Move{
		Entry: n, From: from, To: to, FromPath: fromPath, ToPath: toPath, Old: old, New: name, As: tree.Listable(name, newName),
		Target: to.ChildLocked(name),
	}}, fuse.OK
}
