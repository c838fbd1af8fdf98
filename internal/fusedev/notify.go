package fusedev

import (
	"os/exec"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// UseNotifier has notices given by processes that command makes, each of which must call
// RunNotifier. attachment is where the kernel has the mount, as far as it is known. With kept the
// connection outlives this process, for a keeper. It must be called before Serve.
func (s *Server) UseNotifier(command func() *exec.Cmd, attachment Attachment, kept bool) {
	abort, _ := openAbort(attachment) // a notifier has another way
	s.notifiers = notifiers{command: command, device: s.device, abort: abort, kept: kept, log: s.log}
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
	return s.writeAll(notices)
}

// NotifyAtOnce is Notify by this process, for which no other one must start first. It is for notices
// about attributes and pages, whose locks only requests hold.
func (s *Server) NotifyAtOnce(notices ...Notice) []fuse.Status {
	s.notifiers.begin() // which ends the connection if this process is killed in the middle
	return s.writeAll(notices)
}

func (s *Server) writeAll(notices []Notice) []fuse.Status {
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
