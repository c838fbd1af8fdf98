package fusedev

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/internal/mountinfo"
	"mneme/internal/safepath"
)

// Attachment is a mount in the directory tree. It stays the same when a directory
// above it is renamed. The zero one is nowhere.
type Attachment struct {
	id     int
	device string
}

// Attached returns where this user's mount with that FsName and Name is, by what the
// kernel tells: at dir, unless there is none and another place has the only one. A
// mount of which only other mount namespaces have a copy is nowhere.
func Attached(dir, fsName, name string) (Attachment, error) {
	mounts, err := mountinfo.List()
	if err != nil {
		return Attachment{}, err
	}
	mine := slices.DeleteFunc(mounts, func(m mountinfo.Mount) bool {
		user, _ := m.Option("user_id")
		return m.Type != "fuse."+name || m.Source != fsName || m.Root != "/" || user != strconv.Itoa(os.Geteuid())
	})
	for _, m := range slices.Backward(mine) { // the last one lies on top
		if m.Dir == dir || len(mine) == 1 {
			return Attachment{m.ID, m.Device}, nil
		}
	}
	return Attachment{}, nil
}

// Device is the number of the file system, "major:minor"; "" of the zero Attachment.
func (a Attachment) Device() string { return a.device }

// Detach takes the mount out of the directory tree, busy or not. Where it is not
// there any more, and whatever is in its place, it does nothing.
func (a Attachment) Detach() error {
	mounts, err := mountinfo.List()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.ID != a.id || m.Device != a.device {
			continue
		}
		d, err := safepath.Find(m.Dir)
		if err != nil {
			return err
		}
		defer d.Close()
		if now, err := mountinfo.IDOf(d.File); err != nil || now != a.id { // it is covered, or has just been moved
			return err
		}
		return Detach(d, false)
	}
	return nil
}

// Detach takes the mount whose root was found out of the directory tree, busy or not.
// As root it is that mount, wherever it is now. As another user fusermount3 detaches the
// mount that has the path now. With force, as root, the connection ends, and requests that
// wait fail.
func Detach(root *safepath.Dir, force bool) error {
	if os.Geteuid() != 0 {
		return detachByHelper(root.Path())
	}
	flags := unix.MNT_DETACH
	if force {
		flags |= unix.MNT_FORCE
	}
	return unix.Unmount(root.Handle(), flags)
}

func detachByHelper(dir string) error {
	out, err := helper("-u", "-z", "--", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fusermount3 -u -z: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// detachAgain takes a mount that was just made out of the directory tree.
func detachAgain(dir string, o *fuse.MountOptions) error {
	a, err := Attached(dir, o.FsName, o.Name)
	if err != nil {
		return err
	}
	return a.Detach()
}
