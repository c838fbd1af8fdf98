package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"mneme/errkind"
	"mneme/internal/fusedev"
	"mneme/internal/mountinfo"
	"mneme/internal/safepath"
	"mneme/versionlog"
)

// errMounted says that there is a living mount already.
var errMounted = errkind.New(errkind.InUse, "mneme is mounted there already")

// errInUse says that mounts on this machine show a store that is to end.
var errInUse = errkind.New(errkind.InUse, "in use")

var errNoFusermount = errors.New("mounting as another user than root takes fusermount3, which is missing; `sudo apt-get install fuse3` brings it")

// checkFuse makes sure that this user can mount with FUSE here.
func checkFuse() error { return checkFuseAt(fuseDevice) }

// checkFuseAt is checkFuse for a device at another place.
func checkFuseAt(device string) error {
	switch err := unix.Access(device, unix.R_OK|unix.W_OK); {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s is missing; on a host `modprobe fuse` makes it, a container needs --device %[1]s --cap-add SYS_ADMIN", device)
	case err != nil:
		return fmt.Errorf("open %s: %w; root allows it to everybody with `chmod 666 %[1]s`", device, err)
	}
	if !mayMount() {
		return errMayNotMount
	}
	if os.Geteuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return errNoFusermount
	}
	return nil
}

// mountSite is a directory in which mneme is mounted, or is to be. It is found once,
// and what is done is done to what was found.
type mountSite struct {
	*safepath.Dir
	mount   mountPoint // whose root it is
	mounted bool       // there is such a mount
}

// newMountSite looks at what is mounted at a directory, without touching it.
func newMountSite(d *safepath.Dir) (*mountSite, error) {
	m, found, err := mountinfo.Of(d.File)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	mounted := found && m.Type == mountType && m.Root == "/" && m.Dir == d.Path()
	return &mountSite{Dir: d, mount: newMountPoint(m), mounted: mounted}, nil
}

// there reports whether the mount is still in the directory tree.
func (s *mountSite) there() (bool, error) {
	mounts, err := allMounts()
	for _, m := range mounts {
		if m.id == s.mount.id && m.minor == s.mount.minor {
			return true, err
		}
	}
	return false, err
}

// mountAt finds the mount of mneme at a directory, which there must be.
func mountAt(at string) (*mountSite, error) {
	d, err := safepath.Find(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noMount(at)
	}
	if err != nil {
		return nil, err
	}
	site, err := newMountSite(d)
	if err == nil && !site.mounted {
		err = errors.Join(noMount(d.Path()), d.Close())
	}
	return site, err
}

func noMount(at string) error {
	return fmt.Errorf("a mount of mneme at %s: %w; `mneme status` lists the mounts", at, versionlog.ErrNotFound)
}

// makeMountDir finds the directory to mount at, and makes it if it is missing. A dead
// mount there is cleared.
func makeMountDir(at string) (*mountSite, error) {
	if err := checkFuse(); err != nil {
		return nil, err
	}
	d, err := safepath.Make(at, 0o755)
	switch {
	case errors.Is(err, safepath.ErrUntrusted):
		return nil, explainUntrusted(at, err)
	case err != nil:
		return nil, fmt.Errorf("make the mount point: %w; --at chooses another place, such as --at ~/memory", err)
	}
	site, err := newMountSite(d)
	if err != nil {
		return nil, err
	}
	if site.mounted && !site.mount.alive() && !site.answers() {
		if err := errors.Join(site.clear(), site.Close()); err != nil {
			return nil, fmt.Errorf("clear the dead mount at %s: %w", site.Path(), err)
		}
		return makeMountDir(at) // another may lie below
	}
	if err := site.checkFree(); err != nil {
		return nil, errors.Join(err, site.Close())
	}
	if err := site.checkOwn(); err != nil {
		return nil, errors.Join(err, site.Close())
	}
	return site, nil
}

func explainUntrusted(at string, err error) error {
	return fmt.Errorf("mount at %s: %w; mount as that user, or in a directory that nobody but root may write in, such as --at /srv/mneme/NAME", at, err)
}

// checkOwn makes sure that fusermount3 lets this user mount there.
func (s *mountSite) checkOwn() error {
	if os.Geteuid() == 0 {
		return nil
	}
	info, err := os.Stat(s.Handle())
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	others := info.Mode()&fs.ModeSticky != 0 && known && int(owner.Uid) != os.Geteuid()
	if others || unix.Access(s.Handle(), unix.W_OK) != nil {
		return fmt.Errorf("%s is not yours, so you may not mount there; `sudo chown $USER %[1]s` makes it yours, --at chooses another place", s.Path())
	}
	return nil
}

// checkFree makes sure that a mount would hide nothing.
func (s *mountSite) checkFree() error {
	if s.mounted {
		if s.mount.alive() {
			return fmt.Errorf("%s: %w, by process %d; `mneme unmount --at %[1]s` ends that, --at chooses another place", s.Path(), errMounted, s.mount.pid)
		}
		return nil
	}
	dir, err := os.Open(s.Handle())
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = usagef("%s is not empty (it holds %s), a mount would hide that; --at chooses another place", s.Path(), names[0])
	}
	return err
}

// detach takes the mount out of the directory tree, busy or not.
func (s *mountSite) detach() error { return explainDetach(fusedev.Detach(s.Dir, false)) }

func explainDetach(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errNoFusermount
	}
	return err
}
