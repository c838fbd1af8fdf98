package daemon

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
	"mneme/internal/safepath"
)

// MountedError says that a process already serves a mount at a directory.
type MountedError struct {
	Dir string
	PID int
}

func (e *MountedError) Error() string {
	return fmt.Sprintf("%s: mneme is mounted there already, by process %d", e.Dir, e.PID)
}

// Kind returns errkind.InUse.
func (e *MountedError) Kind() errkind.Kind { return errkind.InUse }

// CheckFuse makes sure that this user can mount with FUSE here.
func CheckFuse() error { return CheckFuseAt(fuseDevice) }

// CheckFuseAt is CheckFuse with another device.
func CheckFuseAt(device string) error {
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

// makeSite finds the directory to mount at, and makes it if it is missing. It clears a
// dead mount there.
func makeSite(at string) (*Site, error) {
	if err := CheckFuse(); err != nil {
		return nil, err
	}
	d, err := safepath.Make(at, 0o755)
	switch {
	case errors.Is(err, safepath.ErrUntrusted):
		return nil, ExplainUntrusted(at, err)
	case err != nil:
		return nil, fmt.Errorf("make the mount point: %w; --at chooses another place, such as --at ~/memory", err)
	}
	site, err := newSite(d)
	if err != nil {
		return nil, err
	}
	if site.mounted && !site.Mount.Alive() && !site.Answers() {
		if err := errors.Join(site.Clear(), site.Close()); err != nil {
			return nil, fmt.Errorf("clear the dead mount at %s: %w", site.Path(), err)
		}
		return makeSite(at) // another dead mount may lie below
	}
	if err := site.checkFree(); err != nil {
		return nil, errors.Join(err, site.Close())
	}
	if err := site.checkOwn(); err != nil {
		return nil, errors.Join(err, site.Close())
	}
	return site, nil
}

// ExplainUntrusted adds to an error about the directory to mount at where to mount
// instead.
func ExplainUntrusted(at string, err error) error {
	return fmt.Errorf("mount at %s: %w; mount as that user, or in a directory that nobody but root may write in, such as --at /srv/mneme/NAME", at, err)
}

// checkOwn makes sure that fusermount3 lets this user mount there.
func (s *Site) checkOwn() error {
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
func (s *Site) checkFree() error {
	if s.mounted {
		if s.Mount.Alive() {
			return &MountedError{Dir: s.Path(), PID: s.Mount.PID}
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
		err = invalidf("%s is not empty (it holds %s), a mount would hide that; --at chooses another place", s.Path(), names[0])
	}
	return err
}

// CheckSite makes sure that mneme is mounted at a directory, or can be.
func CheckSite(at string) (mounted bool, err error) {
	d, err := safepath.Find(at)
	if errors.Is(err, safepath.ErrUntrusted) {
		err = ExplainUntrusted(at, err)
	}
	if err != nil {
		return false, err
	}
	site, err := newSite(d)
	if err != nil {
		return false, err
	}
	if !site.mounted {
		if err = site.checkOwn(); err == nil {
			err = site.checkFree()
		}
	}
	return site.mounted, errors.Join(err, site.Close())
}
