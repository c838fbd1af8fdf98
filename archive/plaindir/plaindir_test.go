package plaindir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// place is a store in memory, and a directory.
type place struct {
	*testing.T
	log   *memlog.Log
	st    *memory.Store
	blobs *memcas.Store
	dir   string
	root  *os.Root
}

func newPlace(t *testing.T) *place {
	p := &place{T: t, log: memlog.New(nil), blobs: memcas.New(), dir: filepath.Join(t.TempDir(), "a", "b")}
	lib := memory.NewLibrary(p.log, func(string) (cas.Store, error) { return p.blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", &memory.StoreOptions{Content: versionlog.ContentAny})
	p.must(err)
	p.st, err = lib.Open(t.Context(), info.ID, memory.SessionAuthor("s"))
	p.must(err)
	p.must(os.MkdirAll(p.dir, 0o755))
	p.root, err = os.OpenRoot(p.dir)
	p.must(err)
	t.Cleanup(func() { _ = p.root.Close() })
	return p
}

func (p *place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *place) put(path, text string) {
	p.Helper()
	_, err := p.st.Write(p.Context(), path, []byte(text), versionlog.ExpectAny())
	p.must(err)
}

// TestWrite: a directory has what the store holds, with its times.
func TestWrite(t *testing.T) {
	p := newPlace(t)
	contents := map[string]string{"a.md": "one\n", "dir/deep/b": "\x00\xff", "dir/empty": "", "-rf": "x", "ünï \"q\"\\": "odd"}
	for name, text := range contents {
		p.put("/"+name, text)
	}
	_, err := p.st.MakeDir(t.Context(), "/none", versionlog.ExpectAny(), nil)
	p.must(err)
	p.put("/gone", "x")
	_, err = p.st.Remove(t.Context(), "/gone", versionlog.ExpectAny())
	p.must(err)
	n, err := Write(t.Context(), p.st, p.root, nil)
	p.must(err)
	found := 0
	p.must(filepath.Walk(p.dir, func(path string, info os.FileInfo, err error) error {
		name := strings.TrimPrefix(path, p.dir+"/")
		if err != nil || info.IsDir() {
			return err
		}
		found++
		have, err := os.ReadFile(path)
		v, headErr := p.st.Head(t.Context(), "/"+name)
		if want, is := contents[name]; !is || string(have) != want || headErr != nil || !info.ModTime().Equal(v.Time) {
			t.Errorf("%s is %q of %v; want %q of %v", name, have, info.ModTime(), want, v.Time)
		}
		return err
	}))
	if info, err := os.Stat(filepath.Join(p.dir, "none")); err != nil || !info.IsDir() || n != len(contents) || found != n {
		t.Errorf("%d written, %d found, %v", n, found, err)
	}
	if _, err := Write(t.Context(), p.st, p.root, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
}

// TestWriteHostile: names that a log has and no memory can have are not written, nowhere.
func TestWriteHostile(t *testing.T) {
	for _, path := range []string{"/../x", "/../../x", "/a/../../x", "/./x", "//x", "/a//b", "/a\x00b", "/.mneme/x", "/" + strings.Repeat("n", 300)} {
		p := newPlace(t)
		d, err := p.blobs.Put(t.Context(), []byte("x"))
		p.must(err)
		_, err = p.log.Commit(t.Context(), p.st.Info().ID, &versionlog.Proposal{Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"},
			Changes: []versionlog.Change{{Action: versionlog.Put, Path: path, Digest: d, Size: 1, Expect: versionlog.ExpectAny()}}})
		p.must(err)
		if _, err := Write(t.Context(), p.st, p.root, nil); err == nil {
			t.Errorf("%q is written", path)
		}
		_ = filepath.Walk(filepath.Dir(filepath.Dir(p.dir)), func(path string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() {
				t.Errorf("there is %s", path)
			}
			return err
		})
	}
	p := newPlace(t)
	p.put("/link/x", "x")
	p.must(os.Symlink("/tmp", filepath.Join(p.dir, "link")))
	if _, err := Write(t.Context(), p.st, p.root, nil); err == nil {
		t.Error("a link that leads out was followed")
	}
}

// TestWriteGitNames: names that git takes for its own are escaped, so that a person who
// works in the directory does not run a session's text; others are as they are.
func TestWriteGitNames(t *testing.T) {
	p := newPlace(t)
	for _, path := range []string{"/.git/config", "/d/.gitmodules", "/.github/x", "/.gitignore"} {
		p.put(path, "x")
	}
	_, err := p.st.MakeDir(t.Context(), "/e/.git", versionlog.ExpectAny(), nil)
	p.must(err)
	_, err = Write(t.Context(), p.st, p.root, nil)
	p.must(err)
	for _, name := range []string{"%2Egit/config", "d/%2Egitmodules", ".github/x", ".gitignore", "e/%2Egit"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{".git", "d/.gitmodules", "e/.git"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
}

// TestWriteLost: a content that is lost ends it, or is left out.
func TestWriteLost(t *testing.T) {
	p := newPlace(t)
	p.put("/a.md", "one")
	p.put("/b.md", "two")
	p.must(p.blobs.Delete(t.Context(), cas.Sum([]byte("one"))))
	lost := ""
	n, err := Write(t.Context(), p.st, p.root, &Options{KeepGoing: true, Lost: func(v versionlog.Version) { lost = v.Path }})
	if err != nil || n != 1 || lost != "/a.md" {
		t.Errorf("%d written, %q lost, %v", n, lost, err)
	}
	q := newPlace(t)
	q.put("/a.md", "one")
	q.must(q.blobs.Delete(t.Context(), cas.Sum([]byte("one"))))
	if _, err := Write(t.Context(), q.st, q.root, nil); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
