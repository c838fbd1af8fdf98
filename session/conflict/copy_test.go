package conflict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestCopyTo(t *testing.T) {
	dir := t.TempDir()
	from, to := New(filepath.Join(dir, "from")), New(filepath.Join(dir, "to"))
	if n, err := from.CopyTo(to.Dir()); n != 0 || err != nil {
		t.Errorf("none: %d, %v", n, err)
	}
	if _, err := os.Stat(to.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory for none: %v", err)
	}
	for _, yours := range []string{"first", "second", "third"} {
		if _, err := from.Keep(About{Path: "/a"}, Texts{Base: []byte("base of " + yours), Yours: []byte(yours)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(from.Remove(2), from.Remove(3)); err != nil {
		t.Fatal(err)
	}
	// A conflict that is being removed lacks files.
	if err := errors.Join(os.Mkdir(filepath.Join(from.Dir(), dirOf(2)), 0o700), os.Symlink("gone", filepath.Join(from.Dir(), dirOf(2), YoursFile))); err != nil {
		t.Fatal(err)
	}
	if n, err := from.CopyTo(to.Dir()); n != 1 || err != nil {
		t.Fatalf("%d, %v; want 1", n, err)
	}
	if list, err := to.List(); err != nil || len(list) != 1 || list[0].ID != 1 {
		t.Errorf("the copy has %v, %v", list, err)
	}
	if text, err := to.Read(1, BaseFile); err != nil || string(text) != "base of first" {
		t.Errorf("base: %q, %v", text, err)
	}
	if id, err := to.Keep(About{Path: "/a"}, Texts{}); err != nil || id != 4 {
		t.Errorf("the next conflict of the copy is %d, %v; want 4, a number that was not used", id, err)
	}
}
