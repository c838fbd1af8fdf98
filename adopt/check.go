package adopt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"mneme/backend"
	"mneme/daemon"
	"mneme/errkind"
	"mneme/internal/mountinfo"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// errNotDir says that a directory cannot be put on a store.
var errNotDir = errkind.New(errkind.Denied, "not a directory that can be used")

// MountedAt returns the topmost mount at a directory, without touching it.
func MountedAt(dir string) (m mountinfo.Mount, found bool, err error) {
	all, err := mountinfo.List()
	for _, one := range all {
		if one.Dir == dir {
			m, found = one, true
		}
	}
	return m, found, err
}

// checkUsable makes sure that a directory can be renamed and is not in use. It returns the
// inode of the directory, or 0 if it is missing.
func checkUsable(dir string, at *backend.Location) (inode uint64, err error) {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case !info.IsDir():
		return 0, fmt.Errorf("%s is %w (%v)", quote.Cell(dir), errNotDir, info.Mode().Type())
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return 0, fmt.Errorf("%s is %w: it belongs to user %d, not to you", quote.Cell(dir), errNotDir, info.Sys().(*syscall.Stat_t).Uid)
	}
	own := []string{at.Dir, os.Getenv("HOME")}
	for _, dir := range []func() (string, error){xdg.State, xdg.Data, xdg.Cache} {
		if d, err := dir(); err == nil {
			own = append(own, d)
		}
	}
	for _, inside := range own {
		if inside != "" && IsBelow(inside, dir) {
			return 0, fmt.Errorf("%s is %w: %s is in it", quote.Cell(dir), errNotDir, quote.Cell(inside))
		}
	}
	if err := checkNoMounts(dir); err != nil {
		return 0, err
	}
	if err := syscall.Access(filepath.Dir(dir), 2); err != nil { // W_OK, to rename it
		return 0, fmt.Errorf("write in %s: %w", filepath.Dir(dir), err)
	}
	return info.Sys().(*syscall.Stat_t).Ino, checkUnused(dir)
}

// checkUnused makes sure that no process is in a directory or has files of it open, as far
// as this user may look.
func checkUnused(dir string) error {
	if users := daemon.Users(dir); len(users) > 0 {
		return fmt.Errorf("%s is %w by %s; let that end or leave it first", quote.Cell(dir), daemon.ErrInUse, quote.Text(strings.Join(users, ", ")))
	}
	return nil
}

// checkNoMounts makes sure that a directory is in no mount of mneme, and contains no mount.
func checkNoMounts(dir string) error {
	all, err := mountinfo.List()
	for _, m := range all {
		if IsBelow(m.Dir, dir) || m.Type == daemon.MountType && IsBelow(dir, m.Dir) {
			return fmt.Errorf("%s is %w: %s is mounted there (%s)", quote.Cell(dir), errNotDir, quote.Cell(m.Dir), m.Type)
		}
	}
	return err
}

// CheckMountable makes sure that this user can mount at a directory, which may be missing.
func CheckMountable(dir string) error {
	if err := daemon.CheckFuse(); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d, err := safepath.Make(dir, 0o700) // the directory exists
	if err != nil {
		return fmt.Errorf("mount at %s: %w", dir, err)
	}
	return d.Close()
}

// freeName returns a name that does not exist: the given one, or one with a number
// appended.
func freeName(name string) (string, error) {
	for n := 1; n < 100; n++ {
		free := name
		if n > 1 {
			free += "-" + strconv.Itoa(n)
		}
		if _, err := os.Lstat(free); errors.Is(err, fs.ErrNotExist) {
			return free, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%s, and 98 more like it: %w", name, fs.ErrExist)
}
