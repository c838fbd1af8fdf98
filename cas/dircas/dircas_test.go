package dircas_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/cas/dircas"
	"mneme/internal/durable"
)

func open(t *testing.T, dir string) *dircas.Store {
	t.Helper()
	s, err := dircas.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *dircas.Store, data string) cas.Digest {
	t.Helper()
	d, err := s.Put(t.Context(), []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func blobFile(dir string, d cas.Digest) string {
	return filepath.Join(dir, d.String()[:2], d.String())
}

func TestConformance(t *testing.T) {
	dirs := make(map[cas.Store]string)
	openIn := func(t *testing.T, dir string) cas.Store {
		s := open(t, dir)
		dirs[s] = dir
		return s
	}
	castest.Run(t, castest.Config{
		Open: func(t *testing.T) cas.Store {
			return openIn(t, filepath.Join(t.TempDir(), "not", "there", "yet"))
		},
		Reopen: func(t *testing.T, s cas.Store) cas.Store { return openIn(t, dirs[s]) },
		Corrupt: func(t *testing.T, s cas.Store, d cas.Digest, data []byte) {
			if err := os.WriteFile(blobFile(dirs[s], d), data, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, dir)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open made the directory: %v", err)
	}
	d := put(t, s, "hello\n")
	const sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	if d.String() != sum {
		t.Errorf("digest %v, want %s", d, sum)
	}
	for name, want := range map[string]fs.FileMode{
		"":          fs.ModeDir | 0o700,
		"58":        fs.ModeDir | 0o700,
		"58/" + sum: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("mode of %q is %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{
		"":                           fs.ErrInvalid,
		file:                         syscall.ENOTDIR,
		filepath.Join(file, "below"): syscall.ENOTDIR,
	} {
		if _, err := dircas.Open(dir, nil); !errors.Is(err, want) {
			t.Errorf("Open(%q): error %v, want %v", dir, err, want)
		}
	}
}

// TestRelativeDirectory checks that a store stays where it was opened when the
// process changes its directory, as a daemon does.
func TestRelativeDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	s := open(t, "blobs")
	d := put(t, s, "data")
	t.Chdir(t.TempDir())
	if _, err := s.Get(t.Context(), d); err != nil {
		t.Error(err)
	}
}

// TestFsyncs pins what a Put costs: fewer would not be durable.
func TestFsyncs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, dir)
	cost := func(data string) uint64 {
		before := durable.Fsyncs()
		put(t, s, data)
		return durable.Fsyncs() - before
	}
	seen := make(map[byte]bool)
	const first = "first"
	// The file, its directory, the store, the parent of the store, and the one
	// above, which durable.MkdirAll found.
	if n := cost(first); n != 5 {
		t.Errorf("first Put of a store: %d fsyncs, want 5", n)
	}
	seen[cas.Sum([]byte(first))[0]] = true
	steady, fresh := 0, 0
	for i := range 64 {
		data := string(rune('A' + i))
		hh := cas.Sum([]byte(data))[0]
		want := uint64(3)
		if seen[hh] {
			want = 2
			steady++
		} else {
			fresh++
		}
		seen[hh] = true
		if n := cost(data); n != want {
			t.Errorf("Put of %q: %d fsyncs, want %d", data, n, want)
		}
	}
	if steady == 0 || fresh == 0 {
		t.Errorf("%d steady and %d fresh directories: the test tests nothing", steady, fresh)
	}
	if n := cost(first); n != 2 {
		t.Errorf("Put of what is there: %d fsyncs, want 2", n)
	}
	if err := os.WriteFile(blobFile(dir, cas.Sum([]byte(first))), []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := cost(first); n != 2 {
		t.Errorf("Put that repairs: %d fsyncs, want 2", n)
	}
	// Another process has to make sure of the directories that it finds: of the
	// store in its parent, of hh in the store.
	s = open(t, dir)
	if n := cost(first); n != 4 {
		t.Errorf("first Put of a process: %d fsyncs, want 4", n)
	}
	if n := cost(first); n != 2 {
		t.Errorf("second Put of a process: %d fsyncs, want 2", n)
	}
}

func TestDeleteIsSynced(t *testing.T) {
	s := open(t, t.TempDir())
	d := put(t, s, "data")
	for range 2 {
		before := durable.Fsyncs()
		if err := s.Delete(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if n := durable.Fsyncs() - before; n != 1 {
			t.Errorf("Delete: %d fsyncs, want 1", n)
		}
	}
}

// TestUnreadable checks that trouble with a file is told apart from a blob that
// is lost.
func TestUnreadable(t *testing.T) {
	t.Run("directory in its place", func(t *testing.T) {
		dir := t.TempDir()
		d := cas.Sum([]byte("data"))
		if err := os.MkdirAll(filepath.Join(blobFile(dir, d), "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		wantErrno(t, open(t, dir), d, syscall.EISDIR)
		if _, err := open(t, dir).Put(t.Context(), []byte("data")); err == nil {
			t.Error("Put succeeded over a directory")
		}
	})
	t.Run("file in place of its directory", func(t *testing.T) {
		dir := t.TempDir()
		d := cas.Sum([]byte("data"))
		if err := os.WriteFile(filepath.Dir(blobFile(dir, d)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wantErrno(t, open(t, dir), d, syscall.ENOTDIR)
		_, err := open(t, dir).Put(t.Context(), []byte("data"))
		if !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("Put: error %v, want ENOTDIR", err)
		}
		if _, err := open(t, dir).Has(t.Context(), d); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("Has: error %v, want ENOTDIR", err)
		}
	})
	t.Run("loop of links", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir)
		d := put(t, s, "data")
		if err := os.Remove(blobFile(dir, d)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(d.String(), blobFile(dir, d)); err != nil {
			t.Fatal(err)
		}
		wantErrno(t, s, d, syscall.ELOOP)
		put(t, s, "data")
		if _, err := s.Get(t.Context(), d); err != nil {
			t.Errorf("Put did not repair an unreadable file: %v", err)
		}
	})
}

func wantErrno(t *testing.T, s *dircas.Store, d cas.Digest, want syscall.Errno) {
	t.Helper()
	_, err := s.Get(t.Context(), d)
	if !errors.Is(err, want) {
		t.Errorf("Get: error %v, want %v", err, want)
	}
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) {
		t.Errorf("Get: error %v claims that the blob is lost", err)
	}
}

func TestListPassesOverOtherFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	d := put(t, s, "data")
	hh := filepath.Dir(blobFile(dir, d))
	for _, name := range []string{
		filepath.Join(dir, "README"),
		filepath.Join(dir, d.String()),
		filepath.Join(hh, durable.TempPrefix+"1"),
		filepath.Join(hh, cas.Sum([]byte("of another directory")).String()),
	} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for got, err := range s.List(t.Context()) {
		if err != nil || got != d {
			t.Errorf("List: %v, %v", got, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("List yields %d blobs, want 1", n)
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	dir := t.TempDir()
	d := put(t, open(t, dir), "data")
	hh := filepath.Dir(blobFile(dir, d))
	young, old := filepath.Join(hh, durable.TempPrefix+"young"), filepath.Join(hh, durable.TempPrefix+"old")
	for _, name := range []string{young, old} {
		if err := os.WriteFile(name, []byte("half a bl"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-61 * time.Minute)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, dir), "data")
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old temporary file is still there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a temporary file that may be in use was removed: %v", err)
	}
}

func TestPutAfterRemovalOfDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, dir)
	put(t, s, "data")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	d := put(t, s, "data")
	if _, err := s.Get(t.Context(), d); err != nil {
		t.Error(err)
	}
}
