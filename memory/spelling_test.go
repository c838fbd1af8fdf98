package memory_test

import (
	"errors"
	"strings"
	"testing"

	"mneme/memory"
	"mneme/versionlog"
)

const nfc, nfd = "caf\u00e9", "cafe\u0301"

// TestSpelled: a spelling is another form of a path, or it is none.
func TestSpelled(t *testing.T) {
	for _, c := range []struct{ path, spelling, want string }{
		{"/" + nfc, "/" + nfd, "/" + nfd},
		{"/" + nfc + "/", "/" + nfd + "/", "/" + nfd + "/"},
		{"/" + nfc + "/" + nfc, "/" + nfc + "/" + nfd, "/" + nfc + "/" + nfd},
		{"/x", "", "/x"},
		{"/" + nfc, "/cafe", "/" + nfc},
		{"/" + nfc, nfd, "/" + nfc},
		{"/" + nfc, "/" + nfd + "/", "/" + nfc},
		{"/" + nfc + "/", "/" + nfd, "/" + nfc + "/"},
		{"/" + nfc, "/" + nfd + "\n", "/" + nfc},
		{"/" + nfc, "/./" + nfd, "/" + nfc},
		{"/" + nfc, "//" + nfd, "/" + nfc},
		{"/" + nfc, "/" + nfd + "\xff", "/" + nfc},
		{"/" + strings.Repeat("\u00e9", 100), "/" + strings.Repeat("e\u0301", 100), "/" + strings.Repeat("\u00e9", 100)},
		{"/" + nfd, "/" + nfd, "/" + nfd},
		{"/" + nfd, "/" + nfc, "/" + nfd},
	} {
		if got := memory.Spelled(c.path, c.spelling); got != c.want {
			t.Errorf("Spelled(%q, %q) = %q, want %q", c.path, c.spelling, got, c.want)
		}
	}
}

// TestSpellings: what is put, made and renamed is spelled as its author spelled it, and so
// is what is below a directory that is renamed.
func TestSpellings(t *testing.T) {
	f, ctx := newFixture(t, nil), t.Context()
	batch := func(changes ...memory.Change) {
		t.Helper()
		if _, err := f.Batch(ctx, changes, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for v, err := range f.Tree(ctx, "/") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v.Spelling)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("spelled %q, want %q", got, want)
		}
	}
	put := func(path, spelling, text string) memory.Change {
		return memory.Change{Action: versionlog.Put, Path: path, Spelling: spelling, Content: []byte(text), Expect: versionlog.ExpectAny()}
	}
	batch(memory.Change{Action: versionlog.MakeDir, Path: "/" + nfc + "/", Spelling: "/" + nfd + "/", Expect: versionlog.ExpectAbsent()},
		put("/"+nfc+"/"+nfc, "/"+nfd+"/"+nfd, "1"), put("/"+nfc+"/x", "/"+nfc+"/x", "1"))
	check("/"+nfd+"/", "/"+nfd+"/"+nfd, "")
	f.Put("/"+nfc+"/"+nfc, "2", versionlog.ExpectAny())
	check("/"+nfd+"/", "/"+nfd+"/"+nfd, "")

	rename := func(from, to string) {
		t.Helper()
		if _, err := f.Rename(ctx, from, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	rename("/"+nfc, "/d")
	check("", "/d/"+nfd, "")
	rename("/d", "/"+nfd+"/e\u0301")
	check("/"+nfd+"/e\u0301/", "/"+nfd+"/e\u0301/"+nfd, "/"+nfd+"/e\u0301/x")
	rename("/"+nfc+"/\u00e9/"+nfc, "/a"+nfd)
	check("/a"+nfd, "/"+nfd+"/e\u0301/", "/"+nfd+"/e\u0301/x")
	rename("/"+nfc+"/\u00e9", "/"+strings.Repeat("e\u0301", 100)) // longer than a listing can have
	check("/a"+nfd, "", "")

	batch(memory.Change{Action: versionlog.MakeDir, Path: "/b" + nfc + "/", Spelling: "/b" + nfd + "/", Expect: versionlog.ExpectAbsent()})
	rename("/"+strings.Repeat("\u00e9", 100), "/b"+nfc) // in whose place it is then
	check("/a"+nfd, "/b"+nfd+"/", "")
	v, err := f.Head(ctx, "/a"+nfc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Remove(ctx, v.Path, versionlog.ExpectAny()); err != nil {
		t.Fatal(err)
	}
	if v, err = f.Restore(ctx, v.Path, v); err != nil || v.Spelling != "/a"+nfd {
		t.Errorf("restored as %+v, %v", v, err)
	}
	for _, bad := range []string{"/cafe", "/" + nfd + "/", "/" + nfd + "\x01", nfd} {
		if _, err := f.Batch(ctx, []memory.Change{put("/"+nfc, bad, "3")}, nil); !errors.Is(err, memory.ErrBadPath) {
			t.Errorf("spelled %q: %v, want ErrBadPath", bad, err)
		}
	}
}
