package fusedev

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mount mounts what is to be served at dir, and returns the device.
func mount(dir string, o *fuse.MountOptions) (fd int, err error) {
	options := append([]string{fmt.Sprintf("max_read=%d", o.MaxWrite)}, o.Options...)
	if o.AllowOther {
		options = append(options, "allow_other")
	}
	if os.Geteuid() == 0 {
		return mountDirectly(dir, o, options)
	}
	return mountByHelper(dir, append(options, "fsname="+o.FsName, "subtype="+o.Name))
}

// mountDirectly takes root.
func mountDirectly(dir string, o *fuse.MountOptions, options []string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return -1, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	options = append(options, fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d", fd, st.Mode&unix.S_IFMT, os.Geteuid(), os.Getegid()))
	if err := unix.Mount(o.FsName, dir, "fuse."+o.Name, flags, strings.Join(options, ",")); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
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
	cmd := exec.Command("fusermount3", "-o", strings.Join(options, ","), "--", dir)
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

// Detach takes the mount at dir out of the directory tree, busy or not.
func Detach(dir string) error {
	if os.Geteuid() == 0 {
		return unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	out, err := exec.Command("fusermount3", "-u", "-z", "--", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fusermount3 -u -z: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
