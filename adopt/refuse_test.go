package adopt

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mneme/internal/testing/skip"
	"mneme/memory"
)

// TestUseRefuses: an adoption that a store cannot hold, or that could not be undone, is
// refused before anything is changed.
func TestUseRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(h *useHome, dir string)
		want string
	}{
		"a symbolic link": {func(h *useHome, dir string) { h.must(os.Symlink("a.md", dir+"/link")) }, `"link": a symbolic link`},
		"a pipe":          {func(h *useHome, dir string) { h.must(syscall.Mkfifo(dir+"/d/pipe", 0o600)) }, `"d/pipe": neither`},
		"a hard link":     {func(h *useHome, dir string) { h.must(os.Link(dir+"/a.md", dir+"/b.md")) }, "hard link"},
		"a large file": {func(h *useHome, dir string) {
			h.named = true
			h.fill("/a.md", "a")
			h.write(dir+"/a.md", strings.Repeat("x", memory.DefaultMaxMemoryBytes+1))
		}, `"a.md": it has 102401 bytes`},
		"a name":           {func(h *useHome, dir string) { h.write(dir+"/x\ny", "") }, `"x\ny"`},
		"bytes for a name": {func(h *useHome, dir string) { h.write(dir+"/\xff", "") }, `"\xff"`},
		"a reserved name":  {func(h *useHome, dir string) { h.write(dir+"/.mneme/x", "") }, "reserved"},
		"two spellings":    {func(h *useHome, dir string) { h.write(dir+"/\u00e9", ""); h.write(dir+"/e\u0301", "") }, "another spelling"},
		"a link to a dir":  {func(h *useHome, dir string) { h.must(os.Rename(dir, dir+"2")); h.must(os.Symlink(dir+"2", dir)) }, "not a directory that can be used"},
		"a store's memory": {func(h *useHome, dir string) { h.fill("/a.md", "other") }, `"/a.md": the store has another text there`},
		"a store's dir":    {func(h *useHome, dir string) { h.named = true; h.fill("/a.md/x", "other") }, "in the store it is a directory"},
		"a store's file":   {func(h *useHome, dir string) { h.named = true; h.fill("/d", "other") }, "the store has a memory at"},
		"a store in use":   {func(h *useHome, dir string) { h.fill("/other", "other") }, "the store has other memories"},
		"text only":        {func(h *useHome, dir string) { h.fill("/d/e/b.md", "b\n") }, `"bin": it is not UTF-8`},
		"stores within": {func(h *useHome, dir string) {
			h.Setenv("XDG_DATA_HOME", dir+"/data")
			h.must(os.Mkdir(dir+"/data", 0o700))
		}, "is in it"},
		"the home directory": {func(h *useHome, dir string) { h.Setenv("HOME", dir) }, "is in it"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newUseHome(t)
			test.do(h, h.home+"/notes")
			before := h.snapshot()
			_, err := h.until(h.begin(-1), func(u *Adoption) error { return h.do(u, DirAgent) })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			h.wantAsBefore("refused", before)
		})
	}
}

// TestUseNamesAttributes: files with attributes that a store does not keep are named.
func TestUseNamesAttributes(t *testing.T) {
	h := newUseHome(t)
	if err := unix.Setxattr(h.home+"/notes/a.md", "user.mine", []byte("1"), 0); err != nil {
		skip.Because(t, "the file system of the test has no extended attributes: "+err.Error())
	}
	f, err := look(h.home+"/notes", largest, false)
	h.must(err)
	if !slices.Equal(f.Attributes, []string{"a.md"}) || !slices.Equal(f.Programs, []string{"d/run.sh"}) {
		t.Errorf("attributes %v, executable %v", f.Attributes, f.Programs)
	}
}
