package fusedev

import (
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The notices below may be sent at any time, also when the mount is gone. The
// kernel takes the locks of the inodes concerned, so a request must not wait for
// one that is about what the request itself holds. ENOENT says that the kernel
// does not know the inode or the name.

// InodeNotify makes the kernel forget the attributes of an inode and, from an
// offset that is not negative on, its pages; length 0 is to the end.
func (s *Server) InodeNotify(node uint64, offset, length int64) fuse.Status {
	return s.notify(fuse.NOTIFY_INVAL_INODE, bytesOf(&fuse.NotifyInvalInodeOut{Ino: node, Off: offset, Length: length}))
}

// EntryNotify makes the kernel forget a name in a directory.
func (s *Server) EntryNotify(parent uint64, name string) fuse.Status {
	about := fuse.NotifyInvalEntryOut{Parent: parent, NameLen: uint32(len(name))}
	return s.notify(fuse.NOTIFY_INVAL_ENTRY, bytesOf(&about), append([]byte(name), 0))
}

// InodeNotifyStoreCache puts bytes into the page cache of an inode; they are at
// most 4 GiB. After Revoke it is ENODEV.
func (s *Server) InodeNotifyStoreCache(node uint64, offset int64, data []byte) fuse.Status {
	s.storing.RLock() // not the lock of the answers, one of which the kernel may wait for here
	defer s.storing.RUnlock()
	if s.answers.ended() {
		return fuse.Status(syscall.ENODEV)
	}
	about := fuse.NotifyStoreOut{Nodeid: node, Offset: uint64(offset), Size: uint32(len(data))}
	return s.notify(fuse.NOTIFY_STORE_CACHE, bytesOf(&about), data)
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// notify sends a notice, which looks like the answer to request 0, with its kind
// in the place of the error.
func (s *Server) notify(kind int32, parts ...[]byte) fuse.Status {
	length := int(unsafe.Sizeof(fuse.OutHeader{}))
	for _, part := range parts {
		length += len(part)
	}
	header := bytesOf(&fuse.OutHeader{Length: uint32(length), Status: -kind})
	conn, gone := s.device.SyscallConn()
	if gone != nil {
		return fuse.Status(syscall.ENODEV)
	}
	var err error
	gone = conn.Control(func(fd uintptr) { // which keeps it open meanwhile
		_, err = unix.Writev(int(fd), append([][]byte{header}, parts...))
	})
	if gone != nil {
		return fuse.Status(syscall.ENODEV)
	}
	return fuse.ToStatus(err)
}
