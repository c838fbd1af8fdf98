package fusedev

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openAbort opens the file by which the kernel ends a connection (Documentation/filesystems/fuse.rst,
// "Control filesystem"). Where that file system is not mounted, root has one of its own.
func openAbort(at Attachment) (*os.File, error) {
	_, minor, ok := strings.Cut(at.device, ":")
	if !ok {
		return nil, errors.New("which connection the mount has is not known")
	}
	f, err := os.OpenFile(filepath.Join("/sys/fs/fuse/connections", minor, "abort"), os.O_WRONLY, 0)
	if err == nil {
		return f, nil
	}
	control, err := mountControl()
	if err != nil {
		return nil, err
	}
	defer unix.Close(control)
	fd, err := unix.Openat(control, filepath.Join(minor, "abort"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(fd), "abort"), nil
}

// mountControl mounts the control file system where no path leads.
func mountControl() (fd int, err error) {
	context, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	fd, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("fsmount", err)
	}
	return fd, nil
}
