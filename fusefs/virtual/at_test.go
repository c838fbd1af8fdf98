package virtual

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// written is a store that is written, with a clock.
type written struct {
	*mount
	now   time.Time
	blobs *memcas.Store
}

// newWritten has a commit a minute from since on:
//
//	1 /a.md   2 /dir/sub/x.md   3 /a.md → /b.md   4 /b.md again   5 no /dir/sub/x.md
func newWritten(t *testing.T) (*written, Dir) {
	h := &written{mount: &mount{T: t}, now: since, blobs: memcas.New()}
	log := memlog.New(&memlog.Options{Now: func() time.Time { return h.now }})
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return h.blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	h.must(err)
	h.store, err = lib.Open(t.Context(), info.ID, memory.SessionAuthor("s"))
	h.must(err)
	h.write("/a.md", "one")
	h.write("/dir/sub/x.md", "x")
	h.batch(memory.Change{Action: versionlog.Rename, Path: "/a.md", To: "/b.md", Expect: versionlog.ExpectExists()})
	h.write("/b.md", "one and two")
	h.batch(memory.Change{Action: versionlog.Remove, Path: "/dir/sub/x.md", Expect: versionlog.ExpectExists()})
	return h, Control(h, since, nil)
}

func (h *written) write(path, text string) {
	h.Helper()
	h.now = h.now.Add(time.Minute)
	_, err := h.store.Write(h.Context(), path, []byte(text), versionlog.ExpectAny())
	h.must(err)
}

func (h *written) batch(changes ...memory.Change) {
	h.Helper()
	h.now = h.now.Add(time.Minute)
	_, err := h.store.Batch(h.Context(), changes, nil)
	h.must(err)
}

// tree is what is below a directory.
func (h *written) tree(d Dir) (tree []string) {
	h.Helper()
	entries, err := d.List(h.Context())
	h.must(err)
	for i, e := range entries {
		n, err := d.Lookup(h.Context(), e.Name)
		h.must(err)
		if n.Mode()&syscall.S_IFMT != e.Mode || e.Place != uint64(i)+1 || !n.Lasting() {
			h.Errorf("%s is listed as %o at %d, and is %o", n.Path(), e.Mode, e.Place, n.Mode())
		}
		if sub, ok := n.(Dir); ok {
			tree = append(append(tree, e.Name+"/"), h.tree(sub)...)
			continue
		}
		text, err := n.(File).Text(h.Context())
		h.must(err)
		if size, _ := n.(File).Stat(); size != int64(len(text)) {
			h.Errorf("%s has %d bytes, and says %d", n.Path(), len(text), size)
		}
		tree = append(tree, e.Name+"="+string(text))
	}
	return tree
}

// TestAt looks at each point of a history, twice: as it is read, and as it is kept.
func TestAt(t *testing.T) {
	h, root := newWritten(t)
	dir := h.dir(root, "/at")
	h.wantNames(dir)
	for name, want := range map[string][]string{
		"0": nil, "1": {"a.md=one"}, "2": {"a.md=one", "dir/", "sub/", "x.md=x"}, "3": {"b.md=one", "dir/", "sub/", "x.md=x"},
		"4": {"b.md=one and two", "dir/", "sub/", "x.md=x"}, "5": {"b.md=one and two"},
		"HEAD": {"b.md=one and two"}, "HEAD~0": {"b.md=one and two"}, "HEAD~": {"b.md=one and two", "dir/", "sub/", "x.md=x"},
		"HEAD~4": {"a.md=one"}, "HEAD~5": nil,
		"2026-11-01T08:00:59Z": nil, "2026-11-01T08:01:00Z": {"a.md=one"}, "2026-11-01T10:01:30+02:00": {"a.md=one"},
		"2026-11-01": {"b.md=one and two"}, "2026-10-31": nil, "2026-11-01T08:03": {"b.md=one", "dir/", "sub/", "x.md=x"}, "9999-12-31": {"b.md=one and two"},
	} {
		for range 2 {
			if got := h.tree(h.dir(root, "/at/"+name)); !slices.Equal(got, want) {
				t.Errorf("at %s there is %q, want %q", name, got, want)
			}
		}
	}
	second := h.dir(root, "/at/2")
	if at := since.Add(2 * time.Minute); !second.Time().Equal(at) || !h.dir(root, "/at/2/dir/sub").Time().Equal(at) {
		t.Errorf("directories are of %v, want %v", second.Time(), at)
	}
	f := h.find(root, "/at/4/b.md").(File)
	if _, changed := f.Stat(); !changed.Equal(since.Add(4*time.Minute)) || !f.Constant() || f.Mode() != syscall.S_IFREG|0o644 || f.Path() != Root+"/at/4/b.md" {
		t.Errorf("a file is of %v, %v, %o, %s", changed, f.Constant(), f.Mode(), f.Path())
	}
	for d, mode := range map[Dir]uint32{dir: 0o555, second: 0o755, h.dir(root, "/at/2/dir/sub"): 0o755} {
		if !d.Fixed() || d.Mode() != syscall.S_IFDIR|mode || d.Remove("a.md", false) != syscall.EROFS {
			t.Errorf("%s is %v, %o", d.Path(), d.Fixed(), d.Mode())
		}
	}
	for _, path := range []string{"/at/5/dir", "/at/5/a.md", "/at/2/b.md", "/at/2/dir/x.md", "/at/2/di", "/at/2/a.md/x", "/at/1/.mneme", "/at/0/a.md"} {
		if n, err := Find(t.Context(), root, Root+path, false); err != syscall.ENOENT {
			t.Errorf("%s is %v, %v", path, n, err)
		}
	}
}

// TestAtLooksUpAnew: the name of a point is kept where it always means the same, and else
// means by each commit another directory, which stays what it is.
func TestAtLooksUpAnew(t *testing.T) {
	h, root := newWritten(t)
	dir := h.dir(root, "/at")
	point := func(name, path string, lasting bool) Dir {
		t.Helper()
		n, err := dir.Lookup(t.Context(), name)
		h.must(err)
		if n.Path() != At+"/"+path || n.Lasting() != lasting {
			t.Errorf("%s is %s, %v; want %s, %v", name, n.Path(), n.Lasting(), path, lasting)
		}
		return n.(Dir)
	}
	point("5", "5", true)
	point("2026-11-01T08:04:00Z", "2026-11-01T08:04:00Z", true)
	point("2026-11-01T08:05:00Z", "2026-11-01T08:05:00Z@5", false) // there may be more commits of that second
	point("876000h", "876000h@0", false)
	before := point("HEAD", "HEAD@5", false)
	point("HEAD~1", "HEAD~1@4", false)
	h.write("/c.md", "three")
	point("HEAD", "HEAD@6", false)
	point("HEAD~1", "HEAD~1@5", false)
	point("2026-11-01T08:05:00Z", "2026-11-01T08:05:00Z", true)
	if got := h.tree(before); !slices.Equal(got, []string{"b.md=one and two"}) {
		t.Errorf("what was HEAD is %q", got)
	}
	// Another process finds what the kernel knows by its place, and no program does.
	if got := h.tree(h.dir(root, "/at/HEAD@5")); !slices.Equal(got, []string{"b.md=one and two"}) {
		t.Errorf("what was HEAD is %q for another process", got)
	}
	for _, name := range []string{"HEAD@5", "5@5", "HEAD@7", "@5"} {
		if n, err := dir.Lookup(t.Context(), name); err == nil {
			t.Errorf("%s is %v", name, n)
		}
	}
	for _, name := range []string{"HEAD@7", "HEAD@x", "HEAD@"} {
		if n, err := Find(t.Context(), root, At+"/"+name, false); err == nil {
			t.Errorf("the place %s is %v", name, n)
		}
	}
}

// TestAtNoPoint: of a name that could be meant for a point, the error says what would be right.
func TestAtNoPoint(t *testing.T) {
	h, root := newWritten(t)
	dir := h.dir(root, "/at")
	for name, want := range map[string]string{
		"6": "the newest commit has sequence number 5", "99999999999999999999": "want a sequence number", "18446744073709551615": "newest commit has sequence number 5",
		"-1": "want a sequence number", "+1": "want a sequence number", "00120": "without leading zeros", "007": "without leading zeros", "00": "without leading zeros",
		"HEAD~6": "the newest commit has sequence number 5", "HEAD~-1": "HEAD~n for n commits before it", "HEAD^": "HEAD~n", "head": "HEAD~n", "HEADS": "HEAD~n",
		"2026-11-": "want a sequence number", "2026-13-01": "want a sequence number", "2026-11-26T25:00:00Z": "want a sequence number", "1.5": "want a sequence number", "5 ": "want a sequence number",
	} {
		n, err := dir.Lookup(t.Context(), name)
		var missing *MissingError
		if !errors.As(err, &missing) || missing.Path != At+"/"+name || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %q", name, n, err, want)
		}
	}
	for _, name := range []string{"", ".", "..", ".gitignore", ".git", "x", "notes", "@5", "/5", "~1"} { // no word about these
		if n, err := dir.Lookup(t.Context(), name); err != syscall.ENOENT {
			t.Errorf("%q is %v, %v", name, n, err)
		}
	}
}

// TestAtFoundAgain: a process that takes a mount over asks for files only, however many
// directories a program has looked at.
func TestAtFoundAgain(t *testing.T) {
	h, root := newWritten(t)
	for path, isDir := range map[string]bool{"/at/3/dir": true, "/at/3/dir/sub": true, "/at/3/dir/sub/x.md": false, "/at/HEAD@3/dir/sub/x.md": false, "/versions/dir/sub": true} {
		n, err := Find(t.Context(), root, Root+path, isDir)
		h.must(err)
		if n.Path() != Root+path || (n.Mode()&syscall.S_IFMT == syscall.S_IFDIR) != isDir {
			t.Errorf("%s is %s, %o", path, n.Path(), n.Mode())
		}
	}
	if n, err := Find(t.Context(), root, Root+"/at/3/nothing/there", true); err != nil || n.Path() != At+"/3/nothing/there" {
		t.Errorf("a directory was looked for: %v", err)
	}
	if n, err := Find(t.Context(), root, Root+"/at/3/nothing/there", false); err != syscall.ENOENT {
		t.Errorf("a file that is not there is %v, %v", n, err)
	}
}

// TestAtLost: what the store has lost is an error, and no missing name.
func TestAtLost(t *testing.T) {
	h, root := newWritten(t)
	f := h.find(root, "/at/1/a.md").(File)
	v, err := history.Resolve(t.Context(), h.store, "/b.md", "1")
	h.must(err)
	h.must(h.blobs.Delete(t.Context(), v.Digest))
	if text, err := f.Text(t.Context()); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a lost text is %q, %v", text, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err := h.dir(root, "/at/3").List(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up lists %v, %v", l, err)
	}
	if got := h.tree(h.dir(root, "/at/4/dir")); !slices.Equal(got, []string{"sub/", "x.md=x"}) {
		t.Errorf("the next one lists %q", got)
	}
}

// TestAtSpelling: names are listed as they were spelled, and found by any spelling.
func TestAtSpelling(t *testing.T) {
	h, root := newWritten(t)
	const nfc, nfd = "caf\u00e9", "cafe\u0301"
	h.batch(memory.Change{Action: versionlog.Put, Path: "/" + nfc + "/" + nfc, Spelling: "/" + nfd + "/" + nfd, Content: []byte("c"), Expect: versionlog.ExpectAbsent()})
	h.wantNames(h.dir(root, "/at/6"), "b.md", nfd)
	h.wantNames(h.dir(root, "/at/6/"+nfc), nfd)
	h.wantText(h.find(root, "/at/6/"+nfc+"/"+nfc), "c")
}

// TestAtLeavesNothing: of a hundred points that were looked at, a few stay in memory.
func TestAtLeavesNothing(t *testing.T) {
	h, root := newWritten(t)
	for i := range 100 {
		h.write("/many/"+strconv.Itoa(i), "text")
	}
	past := h.dir(root, "/at").(*at).past
	past.dirs.room = 150
	for seq := range 100 {
		h.tree(h.dir(root, "/at/"+strconv.Itoa(seq)))
	}
	if n := len(past.states.byKey); n != keptStates {
		t.Errorf("%d states are kept, want %d", n, keptStates)
	}
	if n := past.dirs.sizes; n > past.dirs.room {
		t.Errorf("%d names are kept, want at most %d", n, past.dirs.room)
	}
	if n, used := len(past.dirs.byKey), past.dirs.byUse.Len(); n != used || n > 10 {
		t.Errorf("%d directories are kept, %d by use", n, used)
	}
}
