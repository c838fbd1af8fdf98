package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mneme/internal/testing/skip"
)

const someone = 3001

// site is a directory of root's for a test.
type site struct {
	*testing.T
	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "what others own only root can make")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, dir}
}

func (s *site) must(errs ...error) {
	s.Helper()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// mkdir makes a directory of a user's, also one that others may write in.
func (s *site) mkdir(name string, uid int, mode fs.FileMode) {
	s.Helper()
	dir := s.path(name)
	s.must(os.Mkdir(dir, 0o755), os.Chown(dir, uid, uid), os.Chmod(dir, mode))
}

// link makes a symbolic link of a user's.
func (s *site) link(target, name string, uid int) {
	s.Helper()
	s.must(os.Symlink(target, s.path(name)), os.Lchown(s.path(name), uid, uid))
}

// tree makes what the paths of the tests below lead through.
func (s *site) tree() {
	s.mkdir("own", 0, 0o755)
	s.mkdir("own/theirs", someone, 0o755)
	s.mkdir("own/theirs/below", 0, 0o755)
	s.mkdir("group", 0, 0o775)
	s.mkdir("group/below", 0, 0o755)
	s.mkdir("all", 0, 0o777)
	s.mkdir("all/below", 0, 0o755)
	s.mkdir("tmp", 0, 0o777|fs.ModeSticky)
	s.mkdir("tmp/own", 0, 0o755)
	s.mkdir("tmp/theirs", someone, 0o755)
	s.link("../own", "tmp/link", 0)
	s.link("own", "link", 0)
	s.link(s.path("tmp/../link"), "chain", 0)
	s.link("../own/theirs/../../tmp/own", "own/up", 0)
	s.link(s.path("own"), "own/theirs/link", someone)
	s.link("loop", "loop", 0)
	s.link("own", "old", someone) // made before the directory was root's
	s.must(os.WriteFile(s.path("file"), nil, 0o644))
}

func TestWays(t *testing.T) {
	s := newSite(t)
	s.tree()
	for _, c := range []struct {
		path       string
		make, find string // where it is found, or why not
	}{
		{"own", "own", "own"},
		{"own/theirs", "own/theirs", "own/theirs"},
		{"own/theirs/below", "own/theirs belongs to user 3001", "own/theirs/below"},
		{"own/theirs/link", "own/theirs belongs to user 3001", "own/theirs belongs to user 3001"},
		{"group/below", "group 0 may write in", "group/below"},
		{"all/below", "everybody may write in", "all/below"},
		{"tmp/own", "tmp/own", "tmp/own"},
		{"tmp/theirs", "tmp/theirs belongs to user 3001", "tmp/theirs"},
		{"tmp/link", "tmp/link is a symbolic link", "tmp/link is a symbolic link"},
		{"link", "own", "own"},
		{"chain/theirs", "own/theirs", "own/theirs"},
		{"own/up", "tmp/own", "tmp/own"}, // no user chooses the target of ..
		{"old", "old belongs to user 3001", "old belongs to user 3001"},
		{"loop", "too many levels", "too many levels"},
		{"file", "not a directory", "not a directory"},
		{"file/below", "not a directory", "not a directory"},
		{"own/none", "own/none", "no such file"},
	} {
		t.Run(c.path, func(t *testing.T) {
			found, err := Find(s.path(c.path))
			s.wantFound(t, "Find", found, err, c.find)
			made, err := Make(s.path(c.path), 0o700)
			s.wantFound(t, "Make", made, err, c.make)
		})
	}
}

// wantFound compares where a directory was found, or why it was not.
func (s *site) wantFound(t *testing.T, what string, d *Dir, err error, want string) {
	t.Helper()
	if err == nil {
		defer d.Close()
		info, statErr := os.Stat(s.path(want))
		its, handleErr := os.Stat(d.Handle())
		if d.Path() != s.path(want) || statErr != nil || handleErr != nil || !os.SameFile(info, its) {
			t.Errorf("%s finds %s (%v, %v), want %s", what, d.Path(), statErr, handleErr, want)
		}
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %s", what, err, want)
	}
	refused := strings.Contains(want, "belongs") || strings.Contains(want, "write") || strings.Contains(want, "symbolic")
	if errors.Is(err, ErrUntrusted) != refused {
		t.Errorf("%s: %v is ErrUntrusted: %v", what, err, !refused)
	}
}

// Missing directories are made only below a trusted path.
func TestMake(t *testing.T) {
	s := newSite(t)
	s.tree()
	d, err := Make(s.path("link/new/newer"), 0o750)
	s.must(err)
	defer d.Close()
	for _, name := range []string{"own/new", "own/new/newer"} {
		if info, err := os.Stat(s.path(name)); err != nil || info.Mode() != fs.ModeDir|0o750 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"own/theirs", "all", "group", "own/theirs/link"} {
		if _, err := Make(s.path(name+"/new/x"), 0o755); !errors.Is(err, ErrUntrusted) {
			t.Errorf("in %s: %v", name, err)
		}
		if _, err := os.Lstat(s.path(name + "/new/x")); err == nil {
			t.Errorf("made something in %s", name)
		}
	}
	d, err = Make(s.path("tmp/new"), 0o755)
	s.must(err)
	defer d.Close()
}

// A directory that was found stays what it is.
func TestHandle(t *testing.T) {
	s := newSite(t)
	s.tree()
	d, err := Find(s.path("own/theirs/below"))
	s.must(err)
	defer d.Close()
	s.must(os.Rename(s.path("own/theirs/below"), s.path("moved")))
	s.mkdir("own/theirs/below", someone, 0o755)
	s.must(os.WriteFile(s.path("moved/f"), nil, 0o644))
	if _, err := os.Stat(filepath.Join(d.Handle(), "f")); err != nil {
		t.Error(err)
	}
}

// A file system that another user serves is not trusted, nor asked: it does not answer.
func TestFileSystemOfOthers(t *testing.T) {
	s := newSite(t)
	s.mkdir("fuse", 0, 0o755)
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		skip.Because(t, err.Error())
	}
	defer unix.Close(device)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%[2]d,allow_other", device, someone)
	s.must(unix.Mount("toy", s.path("fuse"), "fuse.toy", unix.MS_NOSUID|unix.MS_NODEV, options))
	defer unix.Unmount(s.path("fuse"), unix.MNT_DETACH|unix.MNT_FORCE)
	for _, name := range []string{"fuse", "fuse/below"} {
		if _, err := Make(s.path(name), 0o755); err == nil || !strings.Contains(err.Error(), "fuse belongs to user 3001") {
			t.Errorf("Make %s: %v", name, err)
		}
	}
	d, err := Find(s.path("fuse"))
	s.must(err)
	defer d.Close()
}

// Another user than root has nothing to fear: all links are followed.
func TestNotRoot(t *testing.T) {
	s := newSite(t)
	s.tree()
	before := asRoot
	asRoot = func() bool { return false }
	defer func() { asRoot = before }()
	for _, name := range []string{"own/theirs/link", "tmp/link", "all/below"} {
		d, err := Make(s.path(name), 0o755)
		s.must(err)
		defer d.Close()
	}
}
