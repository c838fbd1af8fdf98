package safepath

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"mneme/internal/durable"
)

// As root a directory of files is root's alone.
func TestOpenRoot(t *testing.T) {
	s := newSite(t)
	s.tree()
	for name, want := range map[string]string{
		"own": "", "link": "", "tmp/own": "", "own/none": "no such file",
		"own/theirs": "belongs to user 3001", "own/theirs/below": "own/theirs belongs to user 3001",
		"group": "group 0 may write", "all": "everybody may write", "tmp": "everybody may make files in", "old": "link",
	} {
		root, err := OpenRoot(s.path(name))
		checked := Check(s.path(name))
		switch {
		case err == nil:
			s.must(root.Close())
			if want != "" || checked != nil {
				t.Errorf("%s is opened, checked %v; want %s", name, checked, want)
			}
		case want == "" || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %s", name, err, want)
		case errors.Is(err, fs.ErrNotExist) != (checked == nil):
			t.Errorf("%s: %v, but checked %v", name, err, checked)
		}
	}
	for name, good := range map[string]bool{"own/new": true, "tmp/new": true, "own/theirs/new": false, "all/new": false} {
		if err := CheckNew(s.path(name)); (err == nil) != good || err != nil && !errors.Is(err, ErrUntrusted) {
			t.Errorf("CheckNew of %s: %v", name, err)
		}
	}
}

// A directory that was removed, or has given its name to another, is opened again.
func TestRootIsOpenedAnew(t *testing.T) {
	s := newSite(t)
	r := NewRoot(s.path("a/b"))
	if _, err := r.Open(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is made: %v", err)
	}
	root, err := r.Make(0o700)
	s.must(err, root.WriteFile("f", []byte("old"), 0o600))
	if again, err := r.Open(); again != root || err != nil {
		t.Errorf("opened twice: %v, %v", again, err)
	}
	s.must(os.RemoveAll(s.path("a")))
	if _, err := r.ReadFile("f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read from what is gone: %v", err)
	}
	root, err = r.Make(0o700)
	s.must(err, os.Rename(s.path("a"), s.path("c")), os.MkdirAll(s.path("a/b"), 0o700))
	s.must(os.WriteFile(s.path("a/b/f"), []byte("new"), 0o600))
	if text, err := r.ReadFile("f"); string(text) != "new" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if again, err := r.Open(); again == root || err != nil {
		t.Errorf("the one that has the name no more is opened: %v", err)
	}
}

// A directory that is made survives a crash, as by durable.MkdirAll.
func TestMkdirAllSyncs(t *testing.T) {
	s := newSite(t)
	for name, mkdir := range map[string]func(string, fs.FileMode) error{"one": MkdirAll, "other": durable.MkdirAll} {
		before := durable.Fsyncs()
		s.must(mkdir(s.path(name+"/a/b"), 0o700))
		made := durable.Fsyncs() - before
		s.must(mkdir(s.path(name+"/a/b"), 0o700))
		if again := durable.Fsyncs() - before - made; made != 4 || again != 1 {
			t.Errorf("%s: %d fsyncs, and %d where it is there; want 4 and 1", name, made, again)
		}
	}
	s.mkdir("theirs", someone, 0o755)
	if err := MkdirAll(s.path("theirs/a"), 0o700); !errors.Is(err, ErrUntrusted) {
		t.Errorf("in another user's: %v", err)
	}
}

// A file is opened only if it is a regular one, and as root only if no other user may write
// to it.
func TestOpenFile(t *testing.T) {
	s := newSite(t)
	s.must(os.WriteFile(s.path("f"), nil, 0o600), os.WriteFile(s.path("theirs"), nil, 0o600), os.Chown(s.path("theirs"), someone, someone))
	s.must(os.WriteFile(s.path("all"), nil, 0o600), os.Chmod(s.path("all"), 0o666), os.Symlink("f", s.path("link")))
	root, err := OpenRoot(s.dir)
	s.must(err)
	defer root.Close()
	for name, want := range map[string]string{
		"f": "", "new": "", "theirs": "belongs to user 3001", "all": "others may write to", "link": "not a regular file",
	} {
		f, err := OpenFile(root, name, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			s.must(f.Close())
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
