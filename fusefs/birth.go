package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/fusefs/tree"
	"mneme/versionlog"
)

// The kernel asks for the time of creation (STATX) when a program first asks for that of an
// inode, and keeps it until attributes have been forgotten and a program asks for it again. In
// between it takes new attributes that say nothing of it (GETATTR). So once it has been told a
// time that is no longer true, attributes are not kept until it has asked again.

// birthLocked is when n was made, in nanoseconds since 1970: a memory when it got its first
// version, which its id says, anything else when it had last changed as the kernel
// first asked.
func birthLocked(n *tree.Entry) int64 {
	if n.HeadLocked() != nil {
		if at, err := versionlog.MemoryTime(n.HeadLocked().MemoryID()); err == nil {
			return at.UnixNano()
		}
	}
	if told := inodeOf(n).cache.Birth(); told != 0 {
		return told
	}
	return n.CTimeLocked().UnixNano()
}

// rebornLocked reports whether the kernel has been told a time of creation other than the one
// that n has now.
func rebornLocked(n *tree.Entry) bool {
	told := inodeOf(n).cache.Birth()
	return told != 0 && told != birthLocked(n)
}

// Statx implements fuse.RawFileSystem.
func (fs *fileSystem) Statx(cancel <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	var attr fuse.AttrOut
	ask := fuse.GetAttrIn{InHeader: in.InHeader, Flags_: in.GetattrFlags, Fh_: in.Fh}
	if status := fs.GetAttr(cancel, &ask, &attr); !status.Ok() {
		return status
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.node(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	born := birthLocked(n)
	cacheOf(n).SetBirth(born)
	fs.attributesLocked(n, &attr)
	out.SetTimeout(attr.Timeout())
	out.Statx = statxOf(&attr.Attr, time.Unix(0, born))
	return fuse.OK
}

// statxOf is an answer to Statx about what was made at a time.
func statxOf(attr *fuse.Attr, made time.Time) fuse.Statx {
	return fuse.Statx{
		Mask:    unix.STATX_BASIC_STATS | unix.STATX_BTIME,
		Blksize: attr.Blksize, Nlink: attr.Nlink, Uid: attr.Uid, Gid: attr.Gid, Mode: uint16(attr.Mode),
		Ino: attr.Ino, Size: attr.Size, Blocks: attr.Blocks,
		Atime: fuse.SxTime{Sec: attr.Atime, Nsec: attr.Atimensec},
		Mtime: fuse.SxTime{Sec: attr.Mtime, Nsec: attr.Mtimensec},
		Ctime: fuse.SxTime{Sec: attr.Ctime, Nsec: attr.Ctimensec},
		Btime: sxTime(made),
	}
}

func sxTime(t time.Time) fuse.SxTime {
	return fuse.SxTime{Sec: uint64(t.Unix()), Nsec: uint32(t.Nanosecond())}
}
