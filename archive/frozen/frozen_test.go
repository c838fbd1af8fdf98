package frozen

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/erofs/go-erofs"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

func newStore(t *testing.T) (*memory.Library, *memory.Store, *memcas.Store) {
	t.Helper()
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", &memory.StoreOptions{Content: versionlog.ContentAny, MaxMemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, memory.SessionAuthor("s"))
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range contents {
		if _, err := st.Write(t.Context(), path, []byte(text), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.MakeDir(t.Context(), "/empty/one", versionlog.ExpectAny(), nil); err != nil {
		t.Fatal(err)
	}
	return lib, st, blobs
}

var contents = map[string]string{
	"/a.md": "one\n", "/nothing": "", "/dir/deep/b.bin": "\x00\xff", "/dir/large": strings.Repeat("0123456789abcdef", 20_000),
	"/dir/block": strings.Repeat("x", 4096), "/dir.md": "beside", "/ünï/çødé \"q\"\\": "odd name",
	"/" + strings.Repeat("n", 255): "long name",
}

func image(t *testing.T, st *memory.Store, opts *Options) (string, *About) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	about, err := Write(t.Context(), st, f, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f.Name(), about
}

// TestWrite: an image has what the store had, as the kernel reads it where it can, and is
// the same for the same point.
func TestWrite(t *testing.T) {
	lib, st, _ := newStore(t)
	many := make([]memory.Change, 300) // a directory of several blocks
	for i := range many {
		many[i] = memory.Change{Action: versionlog.Put, Path: "/many/" + strings.Repeat("long-", 10) + string(rune('a'+i/26)) + string(rune('a'+i%26)), Expect: versionlog.ExpectAny()}
	}
	if _, err := st.Batch(t.Context(), many, nil); err != nil {
		t.Fatal(err)
	}
	opts := &Options{Expires: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)}
	file, about := image(t, st, opts)
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(t.Context(), "/later.md", []byte("later"), versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	past, err := lib.OpenAt(t.Context(), st.Info().ID, about.Seq)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := image(t, past, opts)
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same point is another image, %v", err)
	}
	read, err := Read(bytes.NewReader(first))
	if err != nil || *read != *about || read.Memories != len(contents)+len(many) || !read.Expires.Equal(opts.Expires.Truncate(time.Second)) {
		t.Errorf("%+v, %v; want %+v", read, err, about)
	}
	if read.Expired(read.Expires.Add(-1)) || !read.Expired(read.Expires) || (&About{}).Expired(time.Now()) {
		t.Error("it does not expire when it should")
	}
	root, err := erofs.Open(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	wantTree(t, root, len(many))
	if mounted := mount(t, file); mounted != "" {
		wantTree(t, os.DirFS(mounted), len(many))
	}
}

// mount has the kernel mount an image; "" where it cannot.
func mount(t *testing.T, file string) string {
	t.Helper()
	known, _ := os.ReadFile("/proc/filesystems")
	if os.Geteuid() != 0 || !bytes.Contains(known, []byte("\terofs\n")) {
		t.Log("this kernel does not mount EROFS for this user; only the library has read the image")
		return ""
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "erofs", "-o", "ro,loop", file, dir).CombinedOutput(); err != nil {
		if out2, err2 := exec.Command("mount", "-t", "erofs", "-o", "ro", file, dir).CombinedOutput(); err2 != nil {
			t.Logf("no loop device, and no mount of a file: %s%s", out, out2)
			return ""
		}
	}
	t.Log("mounted by the kernel")
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return dir
}

func wantTree(t *testing.T, root fs.FS, many int) {
	t.Helper()
	found := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := map[bool]fs.FileMode{true: 0o555, false: 0o444}[d.IsDir()]; info.Mode().Perm() != want || info.ModTime().Before(time.Now().Add(-time.Hour)) {
			t.Errorf("%s has mode %v, time %v", name, info.Mode(), info.ModTime())
		}
		if !d.IsDir() {
			found["/"+name] = true
		} else if entries, err := fs.ReadDir(root, name); err == nil && len(entries) == 0 {
			found["/"+name+"/"] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(contents)+many+2 || !found["/empty/one/"] || !found["/.mneme/snapshot.json"] {
		t.Errorf("%d names in it", len(found))
	}
	for path, want := range contents {
		if have, err := fs.ReadFile(root, path[1:]); err != nil || string(have) != want {
			t.Errorf("%.20s has %d bytes, %v; want %d", path, len(have), err, len(want))
		}
	}
}

// TestRead: what is no image is refused, whatever it is.
func TestRead(t *testing.T) {
	_, st, blobs := newStore(t)
	file, _ := image(t, st, nil)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1)
	if _, err := Read(bytes.NewReader(other)); !errors.Is(err, versionlog.ErrFormat) {
		t.Errorf("a newer one: %v", err)
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("text"), "cut off": data[:2048], "another file system": bytes.Replace(data, []byte("snapshot.json"), []byte("snapshot.jsox"), 1),
		"no JSON": bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": x`), 1),
	} {
		if _, err := Read(bytes.NewReader(data)); !errors.Is(err, ErrNotImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := blobs.Delete(t.Context(), cas.Sum([]byte("one\n"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), st, nil, nil); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a lost content: %v", err)
	}
}
