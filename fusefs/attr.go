package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
)

const blockSize = 4096

// DefaultMode is the permissions of a mount's directories, and of its files except for execution.
const DefaultMode = 0o700

func attrTimeoutLocked(n *tree.Entry) time.Duration {
	if rebornLocked(n) || n.LoadingLocked() && !storeOf(n).tree.AllOfLocked(n) {
		return 0 // no process is told when loading changes a directory's times
	}
	return forever
}

// sizeLocked is the length of the text that a reader gets.
func sizeLocked(n *tree.Entry) int64 {
	switch {
	case isStaged(n):
		return int64(len(stageOf(n).data))
	case n.HeadLocked() != nil:
		return n.HeadLocked().Size()
	}
	return 0
}

// fillAttrLocked tells what n looks like.
func (fs *fileSystem) fillAttrLocked(n *tree.Entry, out *fuse.Attr) {
	out.Ino = n.ID()
	out.Mode = n.ModeLocked()
	out.Nlink = 1 // for directories too, where it says that subdirectories are not counted
	if n.IsGoneLocked() {
		out.Nlink = 0
	}
	out.Uid, out.Gid = fs.opts.UID, fs.opts.GID
	out.Blksize = blockSize
	if !n.IsDir() {
		out.Size = uint64(sizeLocked(n))
		out.Blocks = (out.Size + 511) / 512
	}
	atime, mtime, ctime := n.ATimeLocked(), n.MTimeLocked(), n.CTimeLocked()
	if atime.IsZero() {
		atime = mtime
	}
	out.SetTimes(&atime, &mtime, &ctime)
}

// GetAttr implements fuse.RawFileSystem.
func (fs *fileSystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if status, answered := fs.InlineGetAttr(in, out); answered {
		return status
	}
	return fuse.Status(syscall.ESTALE)
}

// attributesLocked tells what n looks like, and for how long.
func (fs *fileSystem) attributesLocked(n *tree.Entry, out *fuse.AttrOut) {
	out.SetTimeout(attrTimeoutLocked(n))
	fs.fillAttrLocked(n, &out.Attr)
}

// SetAttr implements fuse.RawFileSystem: truncation, chmod, utimens; chown
// only to the owner that is there.
func (fs *fileSystem) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	fs.mu.RLock()
	n, status := fs.writableLocked(in.NodeId)
	fs.mu.RUnlock()
	if !status.Ok() {
		return status
	}
	if status := fs.checkSetAttr(in); !status.Ok() {
		return status
	}
	if _, ok := in.GetSize(); !ok {
		cancel = nil // nothing that waits
	}
	req := *in
	return fs.beside(cancel, in.Pid, func(c *call) fuse.Status { return fs.setAttrBeside(c, n, &req, out) })
}

func (fs *fileSystem) setAttrBeside(c *call, n *tree.Entry, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if mode, ok := in.GetMode(); ok {
		if status := fs.keepMode(n, mode); !status.Ok() {
			return status
		}
	}
	if size, ok := in.GetSize(); ok {
		if status := fs.truncate(c, n, in, size); !status.Ok() {
			return status
		}
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	setAttrLocked(n, in)
	if m := n.LatestLocked(); m != n {
		setAttrLocked(m, in)
		fs.notify.attributesLocked(m)
	}
	if !c.answers() { // the kernel has what was before
		fs.notify.contentLocked(n)
		return fuse.EINTR
	}
	out.SetTimeout(attrTimeoutLocked(n))
	fs.fillAttrLocked(n, &out.Attr)
	return fuse.OK
}

// setAttrLocked sets the mode and the times that a request gives.
func setAttrLocked(n *tree.Entry, in *fuse.SetAttrIn) {
	if mode, ok := in.GetMode(); ok {
		n.SetModeLocked(n.ModeLocked()&syscall.S_IFMT | mode&0o777)
	}
	if at, ok := in.GetMTime(); ok {
		n.SetMTimeLocked(inRange(at))
	}
	if at, ok := in.GetATime(); ok {
		n.SetATimeLocked(inRange(at))
	}
	n.SetCTimeLocked(time.Now())
	markLocked(n)
}

// The earliest and the latest time that a file has. Others cannot be noted for another
// process (RFC 3339); as every file system does, the mount takes the nearest it can have.
var (
	earliest = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)
)

func inRange(at time.Time) time.Time {
	if at.Before(earliest) {
		return earliest
	}
	if at.After(latest) {
		return latest
	}
	return at
}

func (fs *fileSystem) checkSetAttr(in *fuse.SetAttrIn) fuse.Status {
	if mode, ok := in.GetMode(); ok && mode&^0o777 != 0 {
		return fs.unsupported(in.NodeId, "", noSetuid)
	}
	if uid, ok := in.GetUID(); ok && uid != fs.opts.UID {
		return fs.unsupported(in.NodeId, "", noOwners)
	}
	if gid, ok := in.GetGID(); ok && gid != fs.opts.GID {
		return fs.unsupported(in.NodeId, "", noOwners)
	}
	return fuse.OK
}

// StatFs implements fuse.RawFileSystem. A store has no size of its own, so the
// answer is one that no program takes for a full disk.
func (fs *fileSystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const plenty = 1 << 30
	out.Bsize, out.Frsize = blockSize, blockSize
	out.Blocks, out.Bfree, out.Bavail = plenty, plenty, plenty
	out.Files, out.Ffree = plenty, plenty
	out.NameLen = 255
	return fuse.OK
}
