package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// errMounted says that there is a living mount already.
var errMounted = errors.New("mneme is mounted there already")

// errInUse says that mounts on this machine show a store that is to end.
var errInUse = errors.New("in use")

var errNoFusermount = errors.New("mounting as another user than root takes fusermount3, which is missing; `sudo apt-get install fuse3` brings it")

// checkFuse makes sure that this user can mount with FUSE here.
func checkFuse() error {
	switch err := unix.Access(fuseDevice, unix.R_OK|unix.W_OK); {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s is missing; on a host `modprobe fuse` makes it, a container needs --device %[1]s --cap-add SYS_ADMIN", fuseDevice)
	case err != nil:
		return fmt.Errorf("open %s: %w; root allows it to everybody with `chmod 666 %[1]s`", fuseDevice, err)
	}
	if os.Geteuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return errNoFusermount
	}
	return nil
}

// prepareMountDir makes sure that a mount at dir can work, and returns dir as
// mountinfo will spell it.
func prepareMountDir(at string) (string, error) {
	if err := checkFuse(); err != nil {
		return "", err
	}
	dir, err := mountDir(at)
	if err != nil {
		return "", err
	}
	m, found, err := findMount(dir)
	switch {
	case err != nil:
		return "", err
	case found && m.alive():
		return "", fmt.Errorf("%s: %w, by process %d; `mneme unmount --at %[1]s` ends that, --at chooses another place", dir, errMounted, m.pid)
	case found && !m.answers():
		if err := m.clear(); err != nil {
			return "", fmt.Errorf("clear the dead mount at %s: %w", dir, err)
		}
		return prepareMountDir(at) // another may lie below
	case found:
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the mount point: %w; --at chooses another place, such as --at ~/memory", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", usagef("%s is not empty (it holds %s), a mount would hide that; --at chooses another place", dir, entries[0].Name())
	}
	return mountDir(at) // its parents exist now
}
