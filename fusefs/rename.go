package fusefs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/internal/quote"
	"mneme/memory"
)

// move is one rename on its way.
type move struct {
	s *store
	*moving
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
	from, status := fs.current(ctx, in.NodeId)
	fs.mu.RLock()
	to, toStatus := fs.writableLocked(in.Newdir)
	fs.mu.RUnlock()
	switch {
	case !status.Ok():
		return status
	case !toStatus.Ok():
		return toStatus
	case from.store != to.store:
		return fuse.EXDEV
	}
	if status := fs.reachContent(ctx, in.NodeId, oldName); !status.Ok() {
		return status
	}
	if status := fs.reachContent(ctx, in.Newdir, newName); !status.Ok() {
		return status
	}
	release, status := from.store.claimNames(ctx, nameIn{from, oldName}, nameIn{to, newName})
	if !status.Ok() {
		return status
	}
	var n *node
	if status = fuse.EINTR; ctx.Err() == nil {
		n, status = fs.rename(in, from, oldName, newName)
	}
	release()
	from.store.dropSettled()
	if status.Ok() && n != nil {
		status = fs.commitIdle(n)
	}
	return status
}

// commitIdle commits what was written to a scratch file, closed long ago, that
// has got the name of a memory.
func (fs *fileSystem) commitIdle(n *node) fuse.Status {
	fs.mu.Lock()
	st := n.stage()
	idle := st != nil && st.writers == 0 && st.dirty && !n.local
	if idle {
		st.writers++
	}
	fs.mu.Unlock()
	if !idle {
		return fuse.OK
	}
	status := fs.commitFile(n, st, saved)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.endWriteLocked(n, st)
	return status
}

// rename does it, and returns what has moved; nil when nothing had to. The caller
// has claimed both names.
func (fs *fileSystem) rename(in *fuse.RenameIn, from *node, oldName, newName string) (*node, fuse.Status) {
	fs.mu.Lock()
	m, status := fs.newMoveLocked(in, from, oldName, newName)
	// The kernel takes the file that it named for what has moved, and may not know
	// yet which that is.
	known := m == nil || fs.notify.Told(m.n.had().named)
	fs.mu.Unlock()
	if m == nil || m.n == m.target {
		return nil, status
	}
	if m.target != nil && in.Flags&unix.RENAME_NOREPLACE != 0 {
		return nil, fuse.Status(syscall.EEXIST)
	}
	named := m.n
	err := m.s.bury(m.to, m.new, m.n)
	if err != nil {
		return nil, m.s.fail("rename "+quote.Name(oldName)+" to", newName, err)
	}
	if m.n.isDir() {
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
	if m.old != oldName {
		fs.notify.entryLocked(m.from, m.old)
	}
	if m.new != newName || m.n != named || !known {
		fs.notify.entryLocked(m.to, m.new)
	}
	return m.n, fuse.OK
}

// newMoveLocked checks what does not depend on the log.
func (fs *fileSystem) newMoveLocked(in *fuse.RenameIn, from *node, oldName, newName string) (*move, fuse.Status) {
	old, err := memory.ParseName(oldName)
	if err != nil {
		return nil, absent(err)
	}
	n := from.children[old]
	if n == nil {
		if from == from.store.root && old == memory.ReservedName {
			return nil, fuse.EROFS
		}
		return nil, fuse.ENOENT
	}
	below := 0
	if n.isDir() {
		below = 1
	}
	to, name, status := fs.placeLocked(in.Newdir, newName, below)
	if !status.Ok() {
		return nil, status
	}
	fromPath, _ := n.path()
	toPath, _ := to.path() // place has seen that it has one
	return &move{from.store, &moving{
		n: n, from: from, to: to, fromPath: fromPath, toPath: toPath, old: old, new: name, as: listable(name, newName),
		target: to.children[name],
	}}, fuse.OK
}

// takeLocked is tree.takeLocked. What it removes is not to survive the mount.
func (fs *fileSystem) takeLocked(m *move) { m.s.unspoolLocked(m.s.tree.takeLocked(m.moving)) }
