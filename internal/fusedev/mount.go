package fusedev

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mount mounts a file system at dir, on the directory on if that is not nil, and returns
// the device.
func mount(dir string, on *os.File, o *fuse.MountOptions) (fd int, err error) {
	options := append([]string{fmt.Sprintf("max_read=%d", o.MaxWrite)}, o.Options...)
	if o.AllowOther {
		options = append(options, "allow_other")
	}
	if os.Geteuid() == 0 {
		return mountDirectly(dir, on, o, options)
	}
	return mountByHelper(dir, append(options, "fsname="+o.FsName, "subtype="+o.Name))
}

// noexec is the option of a mount that no program is executed from.
const noexec = "noexec"

// mountDirectly needs root. It mounts on an open directory, wherever that is now.
func mountDirectly(dir string, on *os.File, o *fuse.MountOptions, options []string) (int, error) {
	if on == nil {
		opened, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return -1, err
		}
		defer opened.Close()
		on = opened
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if i := slices.Index(options, noexec); i >= 0 { // which is for the mount, and unknown to the file system
		options = slices.Delete(options, i, i+1)
		flags |= unix.MS_NOEXEC
	}
	options = append(options, fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d", fd, unix.S_IFDIR, os.Geteuid(), os.Getegid()))
	if err := unix.Mount(o.FsName, handle(on), "fuse."+o.Name, flags, strings.Join(options, ",")); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// handle is a path of an open file itself, whatever has its name now.
func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// helper is a command of fusermount3, which gets no signal of a terminal: it belongs to
// no process group of this process.
func helper(args ...string) *exec.Cmd {
	cmd := exec.Command("fusermount3", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// mountByHelper lets fusermount3 mount, which hands the device over through the
// socket that _FUSE_COMMFD names.
func mountByHelper(dir string, options []string) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "fusermount3"), os.NewFile(uintptr(pair[1]), "fusermount3")
	defer ours.Close()
	cmd := helper("-o", strings.Join(options, ","), "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := cmd.CombinedOutput()
	theirs.Close()
	if err != nil {
		return -1, fmt.Errorf("fusermount3: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return received(pair[0])
}

// received returns the file descriptor that has come through a socket.
func received(socket int) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return -1, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, errors.New("fusermount3 has not handed over the FUSE device")
}
