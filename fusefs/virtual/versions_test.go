package virtual

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/memory"
	"mneme/versionlog"
)

// TestVersions lists and reads the versions of memories that were renamed and removed, and
// of a path that was a memory and a directory.
func TestVersions(t *testing.T) {
	h, root := newWritten(t)
	dir := h.dir(root, "/versions")
	h.wantNames(dir, "b.md")
	h.wantNames(h.dir(root, "/versions/b.md"), "1", "3", "4")
	for number, want := range map[string]string{"1": "one", "3": "one", "4": "one and two"} {
		f := h.find(root, "/versions/b.md/"+number).(File)
		h.wantText(f, want)
		if size, _ := f.Stat(); size != int64(len(want)) || !f.Constant() || f.Mode() != syscall.S_IFREG|0o644 || f.Lasting() {
			t.Errorf("version %s has %d bytes, %v, %o, %v", number, size, f.Constant(), f.Mode(), f.Lasting())
		}
	}
	h.wantNames(h.dir(root, "/versions/a.md"), "1", "3", "4")

	h.batch(memory.Change{Action: versionlog.Remove, Path: "/b.md", Expect: versionlog.ExpectExists()}) // 6
	h.write("/b.md/7", "deep")                                                                          // 7
	h.write("/b.md/4", "hidden by the version")                                                         // 8
	h.write("/b.md/5", "a name")                                                                        // 9
	if got := names(t, h.dir(root, "/versions/b.md")); !slices.Equal(got, []string{"1", "3", "4", "5/", "7/"}) {
		t.Errorf("what was a memory and is a directory lists %q", got)
	}
	h.wantText(h.find(root, "/versions/b.md/4"), "one and two")
	h.wantNames(h.dir(root, "/versions/b.md/5"), "9")
	for _, path := range []string{"", "/b.md", "/b.md/5"} {
		d := h.dir(root, "/versions"+path)
		for _, name := range []string{"x", "01", "-1", "0", "2", "6", "99999999999999999999", ".gitignore", ".mneme"} {
			if n, err := d.Lookup(t.Context(), name); err != syscall.ENOENT {
				t.Errorf("%s in %s is %v, %v", name, d.Path(), n, err)
			}
		}
	}
	// This file was removed with its directory, which was made.
	h.batch(memory.Change{Action: versionlog.MakeDir, Path: "/made/", Expect: versionlog.ExpectAny()})
	h.write("/made/x.md", "x") // 11
	h.batch(memory.Change{Action: versionlog.Remove, Path: "/made/x.md", Expect: versionlog.ExpectAny()})
	h.batch(memory.Change{Action: versionlog.Remove, Path: "/made/", Expect: versionlog.ExpectAny()})
	h.wantNames(h.dir(root, "/versions/made"))
	h.wantNames(h.dir(root, "/versions/made/x.md"), "11")
	h.wantText(h.find(root, "/versions/made/x.md/11"), "x")

	before := dir.Time()
	h.write("/b.md/5", "more")
	if after := dir.Time(); !after.After(before) || dir.Fixed() || dir.Remove("b.md", true) != syscall.EROFS {
		t.Errorf("after a commit it is of %v, before of %v", after, before)
	}
}

// TestVersionsOfOneCommit: one commit changed the memory that came to the path later, and another
// one that was at the path. Each version with a text is listed, and is what it is listed as.
func TestVersionsOfOneCommit(t *testing.T) {
	for name, there := range map[string]struct {
		change memory.Change
		want   map[string]string
	}{
		"removed": {memory.Change{Action: versionlog.Remove, Path: "/p"}, map[string]string{"6": "q", "7": "p", "8": "q2", "9": "q2"}},
		"changed": {memory.Change{Action: versionlog.Put, Path: "/p", Content: []byte("p2")}, map[string]string{"6": "q", "7": "p", "8": "p2", "memver_": "q2", "10": "q2"}},
		"renamed": {memory.Change{Action: versionlog.Rename, Path: "/p", To: "/r"}, map[string]string{"6": "q", "7": "p", "8": "q2", "memver_": "p", "9": "q2"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := newWritten(t)
			h.write("/q", "q") // 6
			h.write("/p", "p")
			change := there.change
			change.Expect = versionlog.ExpectAny()
			h.batch(memory.Change{Action: versionlog.Put, Path: "/q", Content: []byte("q2"), Expect: versionlog.ExpectAny()}, change)
			if name == "changed" {
				h.batch(memory.Change{Action: versionlog.Remove, Path: "/p", Expect: versionlog.ExpectAny()})
			}
			h.batch(memory.Change{Action: versionlog.Rename, Path: "/q", To: "/p", Expect: versionlog.ExpectAny()})
			got := map[string]string{}
			for _, version := range names(t, h.dir(root, "/versions/p")) {
				text, err := h.find(root, "/versions/p/"+version).(File).Text(t.Context())
				h.must(err)
				if prefix := "memver_"; strings.HasPrefix(version, prefix) {
					version = prefix
				}
				got[version] = string(text)
			}
			if diff := cmp.Diff(there.want, got); diff != "" {
				t.Errorf("versions of /p (-want +got):\n%s", diff)
			}
		})
	}
}

// names are what a directory lists, sorted; directories end in a slash.
func names(t *testing.T, d Dir) (names []string) {
	t.Helper()
	entries, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if e.Mode == syscall.S_IFDIR {
			e.Name += "/"
		}
		if i > 0 && e.Place <= entries[i-1].Place {
			t.Errorf("%s is at %d, behind %d", e.Name, e.Place, entries[i-1].Place)
		}
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// TestEvents reads the newest commits, also where the length is asked for first.
func TestEvents(t *testing.T) {
	h, root := newWritten(t)
	f := h.find(root, "/events").(File)
	h.wantText(f, "5\n4\n3\n2\n1\n")
	if size, changed := f.Stat(); size != 0 || !changed.Equal(since) || f.Constant() {
		t.Errorf("it has %d bytes of %v, %v", size, changed, f.Constant())
	}
	shared := h.find(Control(h, since, &Options{NoOpen: true}), "/events").(File)
	size, before := shared.Stat()
	h.write("/c.md", "c")
	h.wantText(f, "6\n5\n4\n3\n2\n1\n")
	h.wantText(shared, "5\n4\n3\n2\n1\n") // which has the length that was told
	if size != 10 {
		t.Errorf("it has %d bytes, want 10", size)
	}
	if size, after := shared.Stat(); size != 12 || !after.After(before) {
		t.Errorf("after a commit it has %d bytes of %v, before of %v", size, after, before)
	}
	h.wantText(shared, "6\n5\n4\n3\n2\n1\n")

	var many []memory.Change
	for i := range eventVersions {
		many = append(many, memory.Change{Action: versionlog.Put, Path: "/m/" + strconv.Itoa(i), Content: []byte{}, Expect: versionlog.ExpectAny()})
	}
	h.batch(many...)
	h.wantText(f, "7\n") // as many versions as there may be
}
