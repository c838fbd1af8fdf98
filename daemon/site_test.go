package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mneme/internal/testing/skip"
)

// bareMount makes a mount at dir that looks like mneme's, and that no process serves.
func bareMount(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting in tests takes root")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	device, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		skip.Because(t, err.Error())
	}
	defer unix.Close(device) // at once, so that the mount is dead
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device)
	if err := unix.Mount("mneme:0", dir, MountType, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 3 { // the mount may have been renamed
			mounts, _ := AllMounts()
			for _, m := range mounts {
				if rel, err := filepath.Rel(filepath.Dir(filepath.Dir(dir)), m.Dir); err == nil && filepath.IsLocal(rel) {
					_ = unix.Unmount(m.Dir, unix.MNT_DETACH|unix.MNT_FORCE)
				}
			}
		}
	})
}

func mountedBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	mounts, err := AllMounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if rel, err := filepath.Rel(dir, m.Dir); err == nil && filepath.IsLocal(rel) {
			names = append(names, rel)
		}
	}
	slices.Sort(names)
	return names
}

// TestUnmountsWhatWasFound: the mount that was found is unmounted, even if another mount
// has its name now.
func TestUnmountsWhatWasFound(t *testing.T) {
	for how, end := range map[string]func(*Site) error{"clear": (*Site).Clear, "detach": (*Site).Detach} {
		t.Run(how, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			path := func(name string) string { return filepath.Join(dir, name) }
			bareMount(t, path("a/m"))
			bareMount(t, path("b/m"))
			site, err := Find(path("a/m"))
			if err != nil {
				t.Fatal(err)
			}
			defer site.Close()
			if err := errors.Join(os.Rename(path("a"), path("c")), os.Rename(path("b"), path("a"))); err != nil {
				t.Fatal(err)
			}
			if err := end(site); err != nil {
				t.Error(err)
			}
			if got := mountedBelow(t, dir); !slices.Equal(got, []string{"a/m"}) {
				t.Errorf("mounted are %v, want a/m only, which was b/m", got)
			}
			if there, err := site.there(); there || err != nil {
				t.Errorf("it is said to be there: %v, %v", there, err)
			}
		})
	}
}

// TestMountAt: only the root of a whole mount of mneme is found.
func TestMountAt(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := filepath.Join(dir, "x", "m")
	bareMount(t, m)
	for _, at := range []string{dir, filepath.Join(dir, "x"), filepath.Join(dir, "none", "m")} {
		if _, err := Find(at); !errors.Is(err, ErrNoMount) {
			t.Errorf("a mount at %s: %v", at, err)
		}
	}
	if err := os.Symlink(m, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	site, err := Find(filepath.Join(dir, "link"))
	if err != nil || site.Path() != m {
		t.Fatalf("by a link it is at %v, %v", site, err)
	}
	defer site.Close()
	if site.Answers() {
		t.Error("a dead mount answers")
	}
	if err := unix.Mount("tmpfs", m, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(m); !errors.Is(err, ErrNoMount) {
		t.Errorf("what is covered is found: %v", err)
	}
	if err := unix.Unmount(m, 0); err != nil {
		t.Fatal(err)
	}
}
