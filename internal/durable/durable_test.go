package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// record replaces step by one that notes the names of the steps and lets fail
// decide about each. It restores step when t ends.
func record(t *testing.T, fail func(name string, call func() error) error) *[]string {
	t.Helper()
	var names []string
	old := step
	t.Cleanup(func() { step = old })
	step = func(name string, call func() error) error {
		names = append(names, name)
		return fail(name, call)
	}
	return &names
}

func rootAt(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func succeed(_ string, call func() error) error { return call() }

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWriteFileOrder(t *testing.T) {
	root := rootAt(t, t.TempDir())
	path := filepath.Join(root.Name(), "f")
	steps := record(t, succeed)
	before := Fsyncs()
	if err := WriteFile(root, "f", []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	want := []string{"create", "chmod", "write", "fsync", "rename", "syncdir"}
	if diff := cmp.Diff(want, *steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if n := Fsyncs() - before; n != 2 {
		t.Errorf("%d fsyncs, want 2", n)
	}
	if got := content(t, path); got != "one" {
		t.Errorf("content %q", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode())
	}
}

func TestWriteFileNoDirectory(t *testing.T) {
	err := WriteFile(rootAt(t, t.TempDir()), "none/f", nil, 0o600)
	if !errors.Is(err, syscall.ENOENT) {
		t.Errorf("error %v, want ENOENT", err)
	}
}

// TestWriteFileFaults fails each step, before and after its call was made, with
// and without a file to replace.
func TestWriteFileFaults(t *testing.T) {
	for _, name := range []string{"create", "chmod", "write", "fsync", "rename", "syncdir"} {
		for _, when := range []string{"before", "after"} {
			for _, old := range []string{"", "old content"} {
				t.Run(name+"/"+when+"/"+old, func(t *testing.T) { testFault(t, name, when, old) })
			}
		}
	}
}

func testFault(t *testing.T, name, when, old string) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if old != "" {
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record(t, func(n string, call func() error) error {
		if n != name {
			return call()
		}
		if when == "after" {
			if err := call(); err != nil {
				return err
			}
		}
		return syscall.ENOSPC
	})
	err := WriteFile(rootAt(t, dir), "f", []byte("new content"), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("error %q does not name %s", err, path)
	}
	renamed := name == "syncdir" || name == "rename" && when == "after"
	switch {
	case renamed:
		if got := content(t, path); got != "new content" {
			t.Errorf("content %q, want the new one", got)
		}
	case old != "":
		if got := content(t, path); got != old {
			t.Errorf("content %q, want the old one", got)
		}
	}
	for _, n := range names(t, dir) {
		if n != "f" || old == "" && !renamed {
			t.Errorf("%q is left in the directory", n)
		}
	}
}

func TestMkdirAllSyncsEachParent(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	steps := record(t, succeed)
	path := filepath.Join(root, "there", "a", "b")
	if err := MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	// The first sync is of root: another process may have made "there" and
	// have been killed.
	want := []string{"syncdir", "mkdir", "syncdir", "mkdir", "syncdir"}
	if diff := cmp.Diff(want, *steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	*steps = nil
	if err := MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"syncdir"}, *steps); diff != "" {
		t.Errorf("steps of a directory that is there (-want +got):\n%s", diff)
	}
}

func TestMkdirAllFaults(t *testing.T) {
	for _, name := range []string{"mkdir", "syncdir"} {
		t.Run(name, func(t *testing.T) {
			record(t, func(n string, call func() error) error {
				if n == name {
					return syscall.EIO
				}
				return call()
			})
			if err := MkdirAll(filepath.Join(t.TempDir(), "a"), 0o700); !errors.Is(err, syscall.EIO) {
				t.Errorf("error %v, want EIO", err)
			}
		})
	}
}

func TestMkdirAllOverFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(path, 0o700); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("error %v, want ENOTDIR", err)
	}
	if err := MkdirAll(filepath.Join(path, "below"), 0o700); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("error below a file %v, want ENOTDIR", err)
	}
}

func TestMkdirAllLostRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	record(t, func(name string, call func() error) error {
		if name == "mkdir" {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
		}
		return call()
	})
	if err := MkdirAll(path, 0o700); err != nil {
		t.Errorf("another process made the directory first: %v", err)
	}
}

func TestMkdirAllUnreadableParent(t *testing.T) {
	dir := t.TempDir()
	record(t, func(string, func() error) error { return syscall.EACCES })
	if err := MkdirAll(dir, 0o700); err != nil {
		t.Errorf("a directory that is there: %v", err)
	}
	if err := MkdirAll(filepath.Join(dir, "new"), 0o700); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a new directory: %v, want EACCES", err)
	}
}

func TestSyncReportsErrors(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Sync(f); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

func TestSyncDirMissing(t *testing.T) {
	if err := SyncDir(filepath.Join(t.TempDir(), "none")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("error %v, want ENOENT", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for _, n := range []string{TempPrefix + "old", TempPrefix + "young", "blob"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if n == TempPrefix+"young" {
			continue
		}
		if err := os.Chtimes(filepath.Join(dir, n), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	want := []string{TempPrefix + "young", "blob"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

// A link that leads out of the directory is not followed.
func TestWriteFileFollowsNoLinkOut(t *testing.T) {
	root, victim := rootAt(t, t.TempDir()), t.TempDir()
	if err := errors.Join(root.Symlink(victim, "sub"), root.Symlink(filepath.Join(victim, "f"), "f")); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(root, "sub/f", []byte("x"), 0o600); err == nil {
		t.Error("wrote through a link to a directory outside")
	}
	if err := WriteFile(root, "f", []byte("x"), 0o600); err != nil { // which replaces the link
		t.Error(err)
	}
	if err := SyncDirIn(root, "sub"); err == nil {
		t.Error("synced a directory outside")
	}
	if _, err := SweepIn(root, "sub", 0); err == nil {
		t.Error("swept a directory outside")
	}
	if left := names(t, victim); left != nil {
		t.Errorf("outside there is %q", left)
	}
}
