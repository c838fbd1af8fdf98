package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRenameNew(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(name, text string) {
		t.Helper()
		if data, err := os.ReadFile(name); err != nil || string(data) != text {
			t.Errorf("%s is %q, %v; want %q", filepath.Base(name), data, err, text)
		}
	}
	write(from, "new")
	write(to, "old")
	if err := RenameNew(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	want(from, "new")
	want(to, "old")
	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
	before := Fsyncs()
	if err := RenameNew(from, to); err != nil {
		t.Fatal(err)
	}
	want(to, "new")
	if Fsyncs() == before {
		t.Error("the directory was not synced")
	}
}
