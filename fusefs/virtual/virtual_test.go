package virtual

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

var since = time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)

// mount is a store whose status is another each time, with the conflicts of a directory.
type mount struct {
	*testing.T
	status int
	kept   *conflict.Store // nil: none are shown
	newest uint64          // commit
	pinned atomic.Uint64   // commit
	packs  int             // made
	store  *memory.Store
	during func() // called once while one is made

	padding string // that packs begin with
}

func (m *mount) README() []byte { return []byte("read me\n") }
func (m *mount) Note() []byte   { return []byte("note\n") }
func (m *mount) Errors() []byte { return nil }
func (m *mount) Event(c *versionlog.Commit) ([]byte, error) {
	return fmt.Appendf(nil, "%d\n", c.Seq), nil
}
func (m *mount) Memory() *memory.Store { return m.store }
func (m *mount) Status() []byte {
	m.status++
	return []byte(fmt.Sprintf("status: %d\n", m.status))
}

func (m *mount) Conflicts() Conflicts {
	if m.kept == nil {
		return nil
	}
	return own{m.kept}
}

// own are conflicts of which those of session "mine" may be dismissed.
type own struct{ *conflict.Store }

func (o own) Own(about conflict.About) bool      { return about.Session == "mine" }
func (o own) Dismiss(about conflict.About) error { return o.Settle(about.ID, "dismissed", since) }
func (m *mount) keep(session string) (id int)    { return m.keepWith(session, []byte("base")) }
func (m *mount) keepWith(session string, base []byte) int {
	m.Helper()
	id, err := m.kept.Keep(conflict.About{Path: "/f", Session: session, Time: since.Add(time.Minute)},
		conflict.Texts{Base: base, Theirs: []byte("theirs"), Yours: []byte("yours, longer")})
	m.must(err)
	return id
}

func (m *mount) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// find returns what is at a path below .mneme.
func (m *mount) find(root Dir, path string) Node {
	m.Helper()
	n, err := Find(m.Context(), root, Root+path, false)
	m.must(err)
	return n
}

// dir is find of a directory.
func (m *mount) dir(root Dir, path string) Dir { return m.find(root, path).(Dir) }

// wantNames lists a directory.
func (m *mount) wantNames(d Dir, want ...string) {
	m.Helper()
	entries, err := d.List(m.Context())
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if err != nil || !slices.Equal(names, want) {
		m.Errorf("%s lists %q (%v), want %q", d.Path(), names, err, want)
	}
}

// wantText reads a file.
func (m *mount) wantText(n Node, want string) {
	m.Helper()
	if text, err := n.(File).Text(m.Context()); err != nil || string(text) != want {
		m.Errorf("%s holds %q (%v), want %q", n.Path(), text, err, want)
	}
}

// TestControl looks at what every store has.
func TestControl(t *testing.T) {
	m := &mount{T: t}
	root := Control(m, since, nil)
	m.wantNames(root, "README", "at", "errors", "events", "note", "pack", "status", "versions")
	for path, want := range map[string]struct {
		mode     uint32
		constant bool
		size     int64
		text     string
	}{
		"/README": {syscall.S_IFREG | 0o444, true, 8, "read me\n"},
		"/errors": {syscall.S_IFREG | 0o444, false, 0, ""},
		"/note":   {syscall.S_IFREG | 0o444, true, 5, "note\n"},
		"/status": {syscall.S_IFREG | 0o444, false, 0, "status: 1\n"},
	} {
		f := m.find(root, path).(File)
		size, changed := f.Stat()
		if f.Path() != Root+path || f.Mode() != want.mode || f.Constant() != want.constant || size != want.size || !changed.Equal(since) || !f.Time().Equal(since) {
			t.Errorf("%s: %v, %o, %v, %d, %v", path, f.Path(), f.Mode(), f.Constant(), size, changed)
		}
		m.wantText(f, want.text)
		if err := root.Remove(path[1:], false); err != syscall.EROFS {
			t.Errorf("removal of %s: %v", path, err)
		}
	}
	if root.Path() != Root || root.Mode() != syscall.S_IFDIR|0o555 || !root.Fixed() {
		t.Errorf("the directory is %v, %o, %v", root.Path(), root.Mode(), root.Fixed())
	}
	m.wantText(m.find(root, "/status"), "status: 2\n") // for another reader
	for _, path := range []string{Root + "/conflicts", Root + "/nothing", Root + "/README/x", Root + "/", "/f", "/.mnemes", Root + "x/README"} {
		if n, err := Find(m.Context(), root, path, false); err != syscall.ENOENT {
			t.Errorf("at %s: %v, %v", path, n, err)
		}
	}
}

// TestSharedText: where files are not opened, a text is as it was when its length was asked for,
// and has another time when it is another.
func TestSharedText(t *testing.T) {
	m := &mount{T: t}
	f := m.find(Control(m, since, &Options{NoOpen: true}), "/status").(*text)
	m.wantText(f, "status: 1\n")          // the length of which another process has told
	f.written = time.Now().Add(time.Hour) // so that it is fresh, however slow the machine is
	size, first := f.Stat()
	for range 3 {
		if size != 10 || !first.After(since) {
			t.Errorf("%d bytes of %v", size, first)
		}
		m.wantText(f, "status: 1\n")
	}
	m.status = 98
	f.written = time.Now().Add(-textLife)
	size, second := f.Stat()
	if size != 11 || !second.After(first) {
		t.Errorf("then %d bytes of %v, before %v", size, second, first)
	}
	m.status = 98
	f.written = time.Now().Add(-textLife)
	if _, third := f.Stat(); !third.Equal(second) {
		t.Errorf("the same text is of %v, and was of %v", third, second)
	}
	m.wantText(f, "status: 99\n")
}

// TestConflicts looks at conflicts, of this session and of others.
func TestConflicts(t *testing.T) {
	m := &mount{T: t, kept: conflict.New(t.TempDir())}
	root := Control(m, since, nil)
	m.wantNames(root, "README", "at", "conflicts", "errors", "events", "note", "pack", "status", "versions")
	all := m.dir(root, "/conflicts")
	m.wantNames(all)
	mine, theirs := m.keep("mine"), m.keepWith("other", nil)
	m.wantNames(all, "1", "2")
	if all.Mode() != syscall.S_IFDIR|0o755 || all.Fixed() || !all.Time().Equal(since) {
		t.Errorf("the directory is %o, %v, %v", all.Mode(), all.Fixed(), all.Time())
	}
	m.wantNames(m.dir(root, "/conflicts/1"), "about", "base", "theirs", "yours")
	m.wantNames(m.dir(root, "/conflicts/2"), "about", "theirs", "yours")
	for id, mode := range map[int]uint32{mine: 0o755, theirs: 0o555} {
		d := m.dir(root, "/conflicts/"+strconv.Itoa(id))
		if d.Mode() != syscall.S_IFDIR|mode || d.Fixed() || !d.Time().Equal(since.Add(time.Minute)) {
			t.Errorf("conflict %d is %o, %v, %v", id, d.Mode(), d.Fixed(), d.Time())
		}
	}
	for name, want := range map[string]struct {
		constant bool
		text     string
	}{"base": {true, "base"}, "theirs": {true, "theirs"}, "yours": {false, "yours, longer"}} {
		f := m.find(root, "/conflicts/1/"+name).(File)
		m.wantText(f, want.text)
		if size, _ := f.Stat(); size != int64(len(want.text)) || f.Constant() != want.constant || f.Mode() != syscall.S_IFREG|0o644 {
			t.Errorf("%s has %d bytes, %v, %o", name, size, f.Constant(), f.Mode())
		}
	}
	for _, name := range []string{"0", "01", "+1", "-1", "3", "1 ", "one", "settled", "last", "..", ".", ""} {
		if n, err := all.Lookup(m.Context(), name); err != syscall.ENOENT {
			t.Errorf("%q is %v, %v", name, n, err)
		}
	}
	for _, name := range []string{"more", "", "..", "../last", "About"} {
		if n, err := m.dir(root, "/conflicts/1").Lookup(m.Context(), name); err != syscall.ENOENT {
			t.Errorf("in a conflict %q is %v, %v", name, n, err)
		}
	}

	// A session that loses more, one that settles, and one that is removed.
	yours := m.find(root, "/conflicts/1/yours").(File)
	_, err := m.kept.Rewrite(mine, []byte("more"), false)
	m.must(err)
	m.wantText(yours, "more")
	m.must(m.kept.Settle(mine, "written", since))
	m.wantNames(all, "2")
	m.wantText(m.find(root, "/conflicts/1/yours"), "more")
	m.must(m.kept.Remove(mine))
	if _, err := all.Lookup(m.Context(), "1"); err != syscall.ENOENT {
		t.Errorf("one that is removed: %v", err)
	}
	if text, err := yours.Text(m.Context()); err != syscall.ENOENT {
		t.Errorf("its text: %q, %v", text, err)
	}
}

// TestDismiss removes the directories of conflicts.
func TestDismiss(t *testing.T) {
	m := &mount{T: t, kept: conflict.New(t.TempDir())}
	root := Control(m, since, nil)
	all := m.dir(root, "/conflicts")
	m.keep("mine")
	m.keep("other")
	m.keep("mine")
	first := m.dir(root, "/conflicts/1")
	for _, c := range []struct {
		dir  string
		name string
		as   bool
		want error
	}{
		{"/conflicts", "4", true, syscall.ENOENT}, {"/conflicts", "1", false, syscall.EISDIR}, {"/conflicts", "2", true, ErrNotYours},
		{"/conflicts/1", "nothing", false, syscall.ENOENT}, {"/conflicts/1", "yours", true, syscall.ENOTDIR},
		{"/conflicts/2", "yours", false, ErrNotYours},
		{"/conflicts/1", "about", false, nil}, {"/conflicts/1", "about", false, syscall.ENOENT}, {"/conflicts/1", "yours", false, nil},
	} {
		if err := m.dir(root, c.dir).Remove(c.name, c.as); err != c.want {
			t.Errorf("removal of %s in %s: %v, want %v", c.name, c.dir, err, c.want)
		}
	}
	m.wantNames(first, "base", "theirs")
	m.wantNames(m.dir(root, "/conflicts/1"), "base", "theirs") // also when it is looked up again
	m.wantNames(m.dir(root, "/conflicts/3"), "about", "base", "theirs", "yours")
	m.must(all.Remove("1", true))
	m.wantNames(all, "2", "3")
	m.wantNames(first)
	if _, err := all.Lookup(m.Context(), "1"); err != syscall.ENOENT {
		t.Errorf("a dismissed one: %v", err)
	}
	if err := all.Remove("1", true); err != syscall.ENOENT {
		t.Errorf("dismissed again: %v", err)
	}
	if about, err := m.kept.About(1); err != nil || about.How != "dismissed" {
		t.Errorf("on disk it is %+v, %v", about, err)
	}
	m.must(all.Remove("3", true)) // with all that is in it
	m.wantNames(all, "2")
}

// broken are conflicts whose disk has failed, or is damaged.
type broken struct {
	own
	disk, about error
}

func (b broken) IDs() ([]int, error) { return []int{1}, b.disk }
func (b broken) About(id int) (conflict.About, error) {
	if err := errors.Join(b.disk, b.about); err != nil {
		return conflict.About{}, err
	}
	return b.own.About(id)
}
func (b broken) Read(id int, name string) ([]byte, error) {
	if b.disk != nil {
		return nil, b.disk
	}
	return b.own.Read(id, name)
}

// TestDamagedConflicts: what is left of a conflict can be read, and nothing that is
// there looks as if it were not.
func TestDamagedConflicts(t *testing.T) {
	m := &mount{T: t, kept: conflict.New(t.TempDir())}
	m.keep("mine")
	d, err := newConflicts(broken{own{m.kept}, nil, errors.New("no JSON")}, since).Lookup(m.Context(), "1")
	m.must(err)
	m.wantNames(d.(Dir), "about", "base", "theirs", "yours")
	if err := d.(Dir).Remove("yours", false); err != ErrNotYours {
		t.Errorf("removal of a conflict of nobody knows whom: %v", err)
	}
	failed := errors.New("the disk has failed")
	all := newConflicts(broken{own{m.kept}, failed, nil}, since)
	if _, err := all.List(m.Context()); err != failed {
		t.Errorf("a list of what cannot be read: %v", err)
	}
	for _, name := range []string{"1", "77"} {
		if n, err := all.Lookup(m.Context(), name); err != failed {
			t.Errorf("conflict %s, of which nobody can tell whether it is there: %v, %v", name, n, err)
		}
	}
	d, err = newConflicts(own{m.kept}, since).Lookup(m.Context(), "1")
	m.must(err)
	d.(*conflictDir).kept = broken{own{m.kept}, failed, nil}
	if _, err := d.(Dir).Lookup(m.Context(), "yours"); err != failed {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if _, err := d.(Dir).List(m.Context()); err != failed {
		t.Errorf("a list of what cannot be read: %v", err)
	}
}

// TestNumber: places have numbers of their own, which are the same in every process, and
// of no other file.
func TestNumber(t *testing.T) {
	seen := map[uint64]string{}
	for _, store := range []string{"memstore_1", "memstore_2"} {
		for i := range 1000 {
			path := Root + "/conflicts/" + strconv.Itoa(i) + strings.Repeat("/yours", i%2)
			n := Number(store, path)
			if n>>63 != 1 || seen[n] != "" || n != Number(store, path) {
				t.Errorf("%s of %s has number %d, and so has %s", path, store, n, seen[n])
			}
			seen[n] = store + path
		}
	}
	if n := Number("memstore_1", Root); n != 0xab17b43f83574b46 {
		t.Errorf("another process would know .mneme as %#x", n)
	}
}
