// Package safepath finds directories by their paths so that no other user leads root
// elsewhere. A user who may rename a directory on the way, or put a symbolic link in
// its place, decides what the path means, and root may write wherever it leads. So
// as root a path is walked from / name by name. Each directory is opened without
// following links, and what was found is used by its handle.
//
//   - A directory is trusted if it is root's and no other user may write in it.
//   - A directory with the sticky bit, such as /tmp, in which others may write but
//     not rename or remove what is not theirs, is trusted for names that are root's.
//   - A symbolic link is followed if it is root's, in a directory of the first kind.
//
// Another user than root is not protected: every directory is trusted, and every
// link followed.
package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"mneme/errkind"
	"mneme/internal/durable"
	"mneme/internal/mountinfo"
)

// ErrUntrusted says that root would use a file or directory that another user may change.
var ErrUntrusted = errkind.New(errkind.Denied, "root does not use what others may change")

// Dir is a directory that was found. It stays the same whatever is renamed.
type Dir struct {
	*os.File        // for its handle only (O_PATH)
	path     string // absolute, without links
	mount    int    // its id
	honest   bool   // the file system is known to be root's
	made     bool   // by this walk
}

// Path is where the directory was found: absolute, and without symbolic links.
func (d *Dir) Path() string { return d.path }

// Made reports whether it was made when it was looked for.
func (d *Dir) Made() bool { return d.made }

// Handle is a path of the directory itself, wherever it is now.
func (d *Dir) Handle() string { return fmt.Sprintf("/proc/self/fd/%d", d.Fd()) }

// Find finds a directory. It may be any user's, and in any user's directory: only
// the links on the way have to be trusted. The directory itself is not touched, since
// it may be a mount whose file system hangs.
func Find(path string) (*Dir, error) { return find(path, rules{}) }

// Make finds a directory the way to which is trusted, and makes what is missing.
func Make(path string, perm fs.FileMode) (*Dir, error) {
	return find(path, rules{trusted: true, make: true, perm: perm})
}

// rules say what a walk heeds.
type rules struct {
	trusted bool // the way has to be
	make    bool // what is missing is made
	perm    fs.FileMode
	durable bool // so that it survives a crash of the machine
}

// asRoot reports whether this process has to be protected.
var asRoot = sync.OnceValue(func() bool { return os.Geteuid() == 0 })

// walk is on its way.
type walk struct {
	rules
	way   []*Dir   // from / to where it is
	names []string // that are left
	links int      // that were followed
}

const maxLinks = 40 // as for the kernel

func find(path string, r rules) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	w := &walk{rules: r, names: strings.Split(abs, "/")}
	defer w.close()
	if err := w.open(nil, "/", "/"); err != nil {
		return nil, err
	}
	for len(w.names) > 0 {
		name := w.names[0]
		w.names = w.names[1:]
		switch name {
		case "", ".":
		case "..": // of a link
			if last := len(w.way) - 1; last > 0 {
				_ = w.way[last].Close()
				w.way = w.way[:last]
			}
		default:
			if err := w.step(name); err != nil {
				return nil, err
			}
		}
	}
	found := w.here()
	w.way = w.way[:len(w.way)-1]
	return found, nil
}

func (w *walk) here() *Dir { return w.way[len(w.way)-1] }

func (w *walk) close() {
	for _, d := range w.way {
		_ = d.Close()
	}
}

// open opens a directory, which must not be a link, and goes there.
func (w *walk) open(in *Dir, name, path string) error {
	at := unix.AT_FDCWD
	if in != nil {
		at = int(in.Fd())
	}
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	d := &Dir{File: os.NewFile(uintptr(fd), path), path: path}
	w.way = append(w.way, d)
	d.mount, err = mountinfo.IDOf(d.File)
	if errors.Is(err, mountinfo.ErrUnknown) { // then no user finds a mount either
		d.honest = true
		return nil
	}
	d.honest = in == nil || in.honest && in.mount == d.mount
	return err
}

// step goes on to a name.
func (w *walk) step(name string) error {
	in := w.here()
	path := filepath.Join(in.path, name)
	shared := false
	if w.trusted {
		var err error
		if shared, err = in.check(); err != nil {
			return err
		}
	}
	err := w.open(in, name, path)
	if w.make && errors.Is(err, unix.ENOENT) {
		if err = w.mkdir(in, name, path); err == nil {
			err = w.open(in, name, path)
		}
		if err == nil {
			w.here().made = true
		}
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return w.follow(in, name, path)
	}
	switch {
	case err != nil || !w.trusted:
		return err
	case shared:
		_, err = w.here().owned()
		return err
	}
	return w.here().honestly()
}

// mkdir makes a directory.
func (w *walk) mkdir(in *Dir, name, path string) error {
	if err := unix.Mkdirat(int(in.Fd()), name, uint32(w.perm)); err != nil && !errors.Is(err, unix.EEXIST) {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	if !w.durable {
		return nil
	}
	if !in.made { // the process that made it may have been killed before it was durable
		if err := durable.SyncDir(filepath.Dir(in.path)); err != nil {
			return err
		}
	}
	return durable.SyncDir(in.path)
}

// follow goes on along a link, if that is what has the name.
func (w *walk) follow(in *Dir, name, path string) error {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(in.Fd()), name, text)
	if errors.Is(err, unix.EINVAL) {
		err = unix.ENOTDIR
	}
	if w.links++; err == nil && w.links > maxLinks {
		err = unix.ELOOP
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := in.checkLink(name, path); err != nil {
		return err
	}
	target := string(text[:n])
	if strings.HasPrefix(target, "/") {
		for _, d := range w.way[1:] {
			_ = d.Close()
		}
		w.way = w.way[:1]
	}
	w.names = append(strings.Split(target, "/"), w.names...)
	return nil
}

// checkLink makes sure that only root could have made the link of a name.
func (d *Dir) checkLink(name, path string) error {
	shared, err := d.check()
	if err != nil || !asRoot() {
		return err
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err != nil:
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	case !isTrusted(st.Uid):
		return fmt.Errorf("the symbolic link %w", belongs(path, st.Uid))
	case shared:
		return fmt.Errorf("%s is a symbolic link in a directory that others write in: %w", path, ErrUntrusted)
	}
	return nil
}

// check makes sure that only root changes which names a directory has. shared says
// that others may make names, too, but cannot remove those of root.
func (d *Dir) check() (shared bool, err error) {
	if !asRoot() {
		return false, nil
	}
	st, err := d.owned()
	if err != nil {
		return false, err
	}
	switch others := st.Mode & 0o022; {
	case others == 0:
		return false, nil
	case st.Mode&unix.S_ISVTX != 0:
		return true, nil
	case others&0o002 != 0:
		return false, fmt.Errorf("everybody may write in %s, and rename what is there (mode %04o): %w", d.path, st.Mode&0o7777, ErrUntrusted)
	}
	return false, fmt.Errorf("group %d may write in %s, and rename what is there (mode %04o): %w", st.Gid, d.path, st.Mode&0o7777, ErrUntrusted)
}

// owned makes sure that a directory is root's.
func (d *Dir) owned() (st unix.Stat_t, err error) {
	if err := d.honestly(); err != nil {
		return st, err
	}
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return st, &fs.PathError{Op: "stat", Path: d.path, Err: err}
	}
	if !isTrusted(st.Uid) {
		return st, belongs(d.path, st.Uid)
	}
	return st, nil
}

// honestly makes sure that the directory is not in a file system that another user
// serves, which may say anything of owners. It does not ask that file system.
func (d *Dir) honestly() error {
	if d.honest || !asRoot() {
		return nil
	}
	m, found, err := mountinfo.Of(d.File)
	if err != nil {
		return err
	}
	if found && strings.HasPrefix(m.Type, "fuse") {
		text, _ := m.Option("user_id")
		if uid, err := strconv.ParseUint(text, 10, 32); err == nil && !isTrusted(uint32(uid)) {
			return belongs(d.path, uint32(uid))
		}
	}
	d.honest = true
	return nil
}

func belongs(path string, uid uint32) error {
	return fmt.Errorf("%s belongs to %s: %w", path, userName(uid), ErrUntrusted)
}

func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		return fmt.Sprintf("user %s (%d)", u.Username, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// isTrusted reports whether root trusts a user: itself, and the owner of /, against
// whom nothing helps. In a user namespace the two may differ.
func isTrusted(uid uint32) bool { return uid == 0 || uid == rootOwner() }

var rootOwner = sync.OnceValue(func() uint32 {
	var st unix.Stat_t
	if unix.Stat("/", &st) != nil {
		return 0
	}
	return st.Uid
})
