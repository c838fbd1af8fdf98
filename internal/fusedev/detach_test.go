package fusedev

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/internal/mountinfo"
	"mneme/internal/testing/skip"
)

// A mount is made in the directory that is open, and detached where it is at that time,
// whatever has the name.
func TestMountsWhatIsOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting in tests takes root")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(path("a/m"), 0o755))
	on, err := os.OpenFile(path("a/m"), unix.O_PATH|unix.O_DIRECTORY, 0)
	must(err)
	defer on.Close()
	must(os.Rename(path("a"), path("b")), os.MkdirAll(path("a/m/full"), 0o755))
	o := fuse.MountOptions{FsName: "toy:open", Name: "toy"}
	s, err := Mount(newToy(), path("a/m"), on, &o)
	must(err)
	defer s.Close()
	defer unix.Unmount(path("b/m"), unix.MNT_DETACH) // should the test fail
	wantMounts(t, dir, "b/m")

	at, err := Attached(path("b/m"), o.FsName, o.Name)
	must(err)
	must(os.Rename(path("b"), path("c")))
	if again, err := Attached(path("b/m"), o.FsName, o.Name); err != nil || again != at {
		t.Errorf("after a rename it is at %v, %v; want %v", again, err, at)
	}
	must(os.MkdirAll(path("b/m"), 0o755), unix.Mount("tmpfs", path("b/m"), "tmpfs", 0, "size=4k"))
	defer unix.Unmount(path("b/m"), unix.MNT_DETACH)
	must(at.Detach())
	wantMounts(t, dir, "b/m")
	must(at.Detach(), Attachment{}.Detach())
	wantMounts(t, dir, "b/m")
}

// A mount that covers another one is left alone.
func TestDetachLeavesWhatCovers(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting in tests takes root")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := fuse.MountOptions{FsName: "toy:covered", Name: "toy"}
	s, err := Mount(newToy(), dir, nil, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer unix.Unmount(dir, unix.MNT_DETACH)
	at, err := Attached(dir, o.FsName, o.Name)
	if err := errors.Join(err, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := at.Detach(); err != nil {
		t.Fatal(err)
	}
	wantMounts(t, dir, ".", ".")
}

// wantMounts compares what is mounted at and below a directory.
func wantMounts(t *testing.T, dir string, want ...string) {
	t.Helper()
	mounts, err := mountinfo.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mounts {
		if rel, err := filepath.Rel(dir, m.Dir); err == nil && filepath.IsLocal(rel) {
			got = append(got, rel)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("mounted are %v, want %v", got, want)
	}
}
