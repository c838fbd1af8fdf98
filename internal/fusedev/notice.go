package fusedev

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
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

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
