package fusedev

import (
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Notice is a message to the kernel that it did not ask for, as the device takes it.
type Notice []byte

// InodeNotice makes the kernel forget the attributes of an inode and, from an offset that is not
// negative on, its pages; length 0 is to the end.
func InodeNotice(node uint64, offset, length int64) Notice {
	return newNotice(fuse.NOTIFY_INVAL_INODE, bytesOf(&fuse.NotifyInvalInodeOut{Ino: node, Off: offset, Length: length}))
}

// EntryNotice makes the kernel forget a name in a directory.
func EntryNotice(parent uint64, name string) Notice {
	about := fuse.NotifyInvalEntryOut{Parent: parent, NameLen: uint32(len(name))}
	return newNotice(fuse.NOTIFY_INVAL_ENTRY, bytesOf(&about), append([]byte(name), 0))
}

func newNotice(kind int32, parts ...[]byte) Notice {
	n := noticeHeader(kind, parts)
	for _, part := range parts {
		n = append(n, part...)
	}
	return n
}

// noticeHeader is that of a notice, which looks like the answer to request 0, with its kind in the
// place of the error.
func noticeHeader(kind int32, parts [][]byte) []byte {
	length := int(unsafe.Sizeof(fuse.OutHeader{}))
	for _, part := range parts {
		length += len(part)
	}
	return bytesOf(&fuse.OutHeader{Length: uint32(length), Status: -kind})
}

// Notify gives the kernel notices, one after another, and returns what became of each; see
// UseNotifier. It may be called at any time: after Close all are ENODEV. ENOENT says that the
// kernel does not know the inode or the name.
//
// The kernel takes the locks of the inodes concerned, so that a request must not wait for a notice
// about what the request itself holds.
func (s *Server) Notify(notices ...Notice) []fuse.Status {
	if statuses, given := s.notifiers.give(notices); given {
		return statuses
	}
	statuses := make([]fuse.Status, len(notices))
	for i, n := range notices {
		statuses[i] = s.write(n)
	}
	return statuses
}

// InodeNotifyStoreCache puts bytes into the page cache of an inode; they are at
// most 4 GiB. After Revoke it is ENODEV.
func (s *Server) InodeNotifyStoreCache(node uint64, offset int64, data []byte) fuse.Status {
	s.notifiers.begin() // which ends the connection if this process is killed in the middle
	s.storing.RLock()   // not the lock of the answers, one of which the kernel may wait for here
	defer s.storing.RUnlock()
	if s.answers.ended() {
		return fuse.Status(syscall.ENODEV)
	}
	about := fuse.NotifyStoreOut{Nodeid: node, Offset: uint64(offset), Size: uint32(len(data))}
	parts := [][]byte{bytesOf(&about), data}
	return s.write(append([][]byte{noticeHeader(fuse.NOTIFY_STORE_CACHE, parts)}, parts...)...)
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// write gives the kernel a notice that is in parts.
func (s *Server) write(parts ...[]byte) fuse.Status {
	conn, gone := s.device.SyscallConn()
	if gone != nil {
		return fuse.Status(syscall.ENODEV)
	}
	var err error
	gone = conn.Control(func(fd uintptr) { // which keeps it open meanwhile
		_, err = unix.Writev(int(fd), parts)
	})
	if gone != nil {
		return fuse.Status(syscall.ENODEV)
	}
	return fuse.ToStatus(err)
}
