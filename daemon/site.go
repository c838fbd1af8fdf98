package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"

	"mneme/errkind"
	"mneme/internal/fusedev"
	"mneme/internal/mountinfo"
	"mneme/internal/safepath"
)

// ErrNoMount says that no mount of mneme is at a directory.
var ErrNoMount = errkind.New(errkind.NotFound, "not found")

var errNoFusermount = errors.New("mounting as another user than root takes fusermount3, which is missing; `sudo apt-get install fuse3` brings it")

// Site is a directory at which mneme is mounted, or will be. Its methods act on the
// directory and the mount that were found, even if another one has the name now.
type Site struct {
	*safepath.Dir
	Mount   Mount // the mount whose root is the directory
	mounted bool  // such a mount exists
}

// newSite finds the mount at a directory, without touching the mount.
func newSite(d *safepath.Dir) (*Site, error) {
	m, found, err := mountinfo.Of(d.File)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	mounted := found && m.Type == MountType && m.Root == "/" && m.Dir == d.Path()
	return &Site{Dir: d, Mount: newMount(m), mounted: mounted}, nil
}

// there reports whether the mount is still in the directory tree.
func (s *Site) there() (bool, error) {
	mounts, err := AllMounts()
	for _, m := range mounts {
		if m.id == s.Mount.id && m.minor == s.Mount.minor {
			return true, err
		}
	}
	return false, err
}

// Find finds the mount of mneme at a directory. It returns ErrNoMount if none exists.
func Find(at string) (*Site, error) {
	d, err := safepath.Find(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noMount(at)
	}
	if err != nil {
		return nil, err
	}
	site, err := newSite(d)
	if err == nil && !site.mounted {
		err = errors.Join(noMount(d.Path()), d.Close())
	}
	return site, err
}

func noMount(at string) error {
	return fmt.Errorf("a mount of mneme at %s: %w", at, ErrNoMount)
}

// Detach takes the mount out of the directory tree, busy or not.
func (s *Site) Detach() error { return explainDetach(fusedev.Detach(s.Dir, false)) }

func explainDetach(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errNoFusermount
	}
	return err
}
