package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mneme/cmd/mneme/app"
	"mneme/internal/testing/skip"
	"mneme/memory"
)

// writesTo are the commands that make something at a path that their caller names.
var writesTo = map[string][]string{
	"export --dir":         {"export", "s", "--dir"},
	"export --okf":         {"export", "s", "--okf"},
	"backup":               {"backup"},
	"snapshot":             {"snapshot", "s"}, // and import --keep, by the same function
	"store sign --new-key": {"store", "sign", "--new-key"},
}

// TestNewPlacesOfOthers: as root no command makes anything where another user could lead it elsewhere.
func TestNewPlacesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root is led elsewhere by other users")
	}
	const other = 1234
	dir := t.TempDir()
	url := "file://" + filepath.Join(dir, "stores")
	lib, err := app.OpenLibrary(t.Context(), &url, app.Creating)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	_, err = lib.CreateStore(t.Context(), "s", &memory.StoreOptions{})
	must(err)
	must(lib.Close())
	for name, args := range writesTo {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			of := func(name string, uid int, mode uint32) string {
				path := filepath.Join(dir, name)
				must(os.MkdirAll(path, 0o755))
				must(os.Chown(path, uid, uid))
				must(unix.Chmod(path, mode))
				return path
			}
			foreign, everybody, sticky := of("foreign", other, 0o755), of("everybody", 0, 0o777), of("sticky", 0, 0o1777)
			empty := filepath.Join(foreign, "empty")
			must(os.Mkdir(empty, 0o755))
			must(os.Chown(empty, other, other))
			must(os.Symlink(of("own", 0, 0o755), filepath.Join(sticky, "link")))
			must(os.Lchown(filepath.Join(sticky, "link"), other, other))
			for where, path := range map[string]string{
				"in a directory of another user":           filepath.Join(foreign, "new"),
				"an empty directory of another user":       empty,
				"in a directory in which everybody writes": filepath.Join(everybody, "new"),
				"through a link of another user":           filepath.Join(sticky, "link", "new"),
			} {
				out, err := mnemeCommand(t, []string{"HOME=" + dir, "MNEME_URL=" + url}, append(args[:len(args):len(args)], path)...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "root") && !strings.Contains(string(out), "is there already") {
					t.Errorf("%s: %v\n%s", where, err, out)
				}
			}
			path := filepath.Join(sticky, "new")
			if out, err := mnemeCommand(t, []string{"HOME=" + dir, "MNEME_URL=" + url}, append(args[:len(args):len(args)], path)...).CombinedOutput(); err != nil {
				t.Errorf("in a directory with the sticky bit: %v\n%s", err, out)
			}
			for _, where := range []string{foreign, everybody, filepath.Join(dir, "own"), empty} {
				entries, err := os.ReadDir(where)
				must(err)
				for _, e := range entries {
					if e.Name() != "empty" {
						t.Errorf("%s was made in %s", e.Name(), where)
					}
				}
			}
		})
	}
}
