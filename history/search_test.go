package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mneme/history"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/versionlog"
)

// logOf returns what entries hold: for each the sequence number of its versions and their paths.
func (f *fixture) logOf(path string, q history.Query) string {
	f.T.Helper()
	var all []string
	for e, err := range history.LogDir(f.T.Context(), f.Store, path, q) {
		if err != nil {
			f.T.Fatal(err)
		}
		if e.Commit.Event != nil {
			all = append(all, fmt.Sprint(e.Commit.Seq, ":", e.Commit.Event.Kind))
		}
		for _, v := range e.Versions {
			all = append(all, fmt.Sprint(v.Seq, v.Path))
		}
	}
	return strings.Join(all, " ")
}

func TestLogDir(t *testing.T) {
	f := newFixture(t, nil)
	any := versionlog.ExpectAny()
	if got := f.logOf("/", history.Query{}); got != "" {
		t.Errorf("of an empty store: %s", got)
	}
	one := f.Put("/d/a", "1\n", any)
	f.Put("/dd", "1\n", any)
	f.Move("/d/a", "/e")
	two := f.Put("/e", "2\n", any)
	if _, err := f.MakeDir(t.Context(), "/d", any, nil); err != nil {
		t.Fatal(err)
	}
	f.Delete("/dd")
	other, err := f.Lib.Open(t.Context(), f.Info().ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "sesn_1"}, Session: "s2"})
	if err == nil {
		_, err = other.Write(t.Context(), "/d/a", []byte("3\n"), any)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		q    history.Query
		want string
	}{
		{"/", history.Query{}, "7/d/a 6/dd 5/d/ 4/e 3/e 2/dd 1/d/a"},
		{"/d", history.Query{}, "7/d/a 5/d/ 3/e 1/d/a"},
		{"/nix", history.Query{}, ""},
		{"/", history.Query{Session: "s2"}, "7/d/a"},
		{"/", history.Query{Actor: "user:sesn_1"}, "7/d/a"},
		{"/", history.Query{Actor: "sesn_1", Op: versionlog.OpDeleted}, "6/dd"},
		{"/", history.Query{Actor: "session:sesn_1", Op: versionlog.OpCreated}, "5/d/ 2/dd 1/d/a"},
		{"/", history.Query{Actor: "nobody"}, ""},
		{"/", history.Query{From: two.Time}, "7/d/a 6/dd 5/d/ 4/e"},
		{"/", history.Query{To: one.Time}, "1/d/a"},
		{"/d", history.Query{Op: versionlog.OpRenamed}, "3/e"},
	} {
		if got := f.logOf(test.path, test.q); got != test.want {
			t.Errorf("%s, %+v: %s, want %s", test.path, test.q, got, test.want)
		}
	}
	var seqs []uint64
	for e, err := range history.LogMemory(t.Context(), f.Store, "/e", 3, history.Query{Actor: "sesn_1"}) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Versions[0].Seq)
	}
	if fmt.Sprint(seqs) != "[3 1]" {
		t.Errorf("the memory has %v", seqs)
	}
}

// TestLogOfText: versions that added or removed a text, and no others.
func TestLogOfText(t *testing.T) {
	f := newFixture(t, &memory.StoreOptions{Content: versionlog.ContentAny})
	any := versionlog.ExpectAny()
	first := f.Put("/a", "we ship on\nFriday\n", any) // 1
	f.Put("/b", "nothing\n", any)
	f.Put("/a", "we ship on\nFriday, and more\n", any) // has it as before
	f.Move("/a", "/c")
	f.Put("/c", "no more\n", any)             // 5 takes it away
	f.Put("/c", "we ship on\nFriday\n", any)  // 6 says it again
	f.Put("/c", "we ship on\nFriday\n2", any) // has it as before
	f.Move("/c", "/c~")
	f.Put("/c", "we ship on\nFriday\nsaved\n", any) // the same file
	f.Delete("/c~")                                 // 10: the old one goes with it
	f.Delete("/c")                                  // 11
	f.Put("/bin", "\x00we ship on\nFriday", any)    // 12
	change, err := history.Restoring(t.Context(), f.Store, "/d", first)
	if err == nil {
		_, err = f.Batch(t.Context(), []memory.Change{change}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	const text = "ship on\nFriday"
	if got, want := f.logOf("/", history.Query{Text: text}), "13/d 12/bin 11/c 10/c~ 6/c 5/c 1/a"; got != want {
		t.Errorf("it was changed by %s, want %s", got, want)
	}
	if got, want := f.logOf("/", history.Query{Text: text, Op: versionlog.OpModified}), "6/c 5/c"; got != want {
		t.Errorf("it was modified by %s, want %s", got, want)
	}
}

// TestLogOfTextInManyVersions: groups and batches lose nothing.
func TestLogOfTextInManyVersions(t *testing.T) {
	f := newFixture(t, nil)
	var want []string
	for i := range 300 {
		v := f.Put(fmt.Sprintf("/m%d", i%7), fmt.Sprintf("x%d %s", i, strings.Repeat("said ", i%5)), versionlog.ExpectAny())
		if i%5 > 0 || i >= 7 && (i-7)%5 > 0 {
			want = append([]string{fmt.Sprint(v.Seq, v.Path)}, want...)
		}
	}
	var steps []int
	q := history.Query{Text: "said", Progress: func(done, total int) {
		if steps = append(steps, done); done > total || total != 300 {
			t.Errorf("%d of %d commits are looked at", done, total)
		}
	}}
	if got := f.logOf("/", q); got != strings.Join(want, " ") {
		t.Errorf("found %s, want %s", got, strings.Join(want, " "))
	}
	if n := len(steps); n < 3 || steps[n-1] != 300 || !slices.IsSorted(steps) {
		t.Errorf("it says that it has looked at %d commits", steps)
	}
}

func TestFirstSaid(t *testing.T) {
	f := newFixture(t, &memory.StoreOptions{Content: versionlog.ContentAny})
	any := versionlog.ExpectAny()
	if _, _, err := history.FirstSaid(t.Context(), f.Store, "/", "x", nil); !errors.Is(err, history.ErrNeverSaid) {
		t.Errorf("in an empty store: %v", err)
	}
	f.Put("/a", "one\r\n", any)
	f.Put("/b", "two\x1b[0m\nthree", any)
	f.Move("/b", "/d/b")
	f.Put("/a", "one\ntwo\x1b[0m\nthree\n", any)
	f.Delete("/d/b")
	f.Put("/d/c", "one", any)
	f.Put("/moves/x", "four", any)
	f.Move("/moves/x", "/e/x")
	still := func(path, memoryID, text string) string {
		var paths []string
		var unread history.Unread
		for v, err := range history.StillSay(t.Context(), f.Store, path, memoryID, text, &unread) {
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, v.Path)
		}
		return strings.Join(paths, " ")
	}
	for _, test := range []struct {
		path, text string
		want       uint64 // 0: no version says it
		still      string
	}{
		{"/", "one", 1, "/a /d/c"},
		{"/", "one\r\n", 1, ""},
		{"/", "two\x1b[0m\nthree", 2, "/a"},
		{"/a", "two", 4, "/a"},
		{"/d", "one", 6, "/d/c"},
		{"/d/b", "two", 2, ""},        // as it was called before
		{"/moves", "four", 7, "/e/x"}, // where it is now
		{"/moves/x", "four", 7, "/e/x"},
		{"/", "four", 7, "/e/x"},
		{"/", "Two", 0, ""},
		{"/nix", "one", 0, ""},
	} {
		v, unread, err := history.FirstSaid(t.Context(), f.Store, test.path, test.text, nil)
		if test.want == 0 {
			if !errors.Is(err, history.ErrNeverSaid) || !errors.Is(err, versionlog.ErrNotFound) {
				t.Errorf("%q at %s: %v, want ErrNeverSaid", test.text, test.path, err)
			}
		} else if err != nil || v.Seq != test.want || unread != (history.Unread{}) {
			t.Errorf("%q at %s was first said by %d, %+v, %v; want %d", test.text, test.path, v.Seq, unread, err, test.want)
		}
		if got := still(test.path, v.MemoryID, test.text); got != test.still {
			t.Errorf("%q at %s is still said by %q, want %q", test.text, test.path, got, test.still)
		}
	}
}

// TestSearchSaysWhatItCannotRead: contents that are gone are counted, and nothing is said of them.
func TestSearchSaysWhatItCannotRead(t *testing.T) {
	f := &fixture{memtest.NewGappy(t, 1)}
	any := versionlog.ExpectAny()
	f.Put("/a", "said\n", any)
	lost := f.Put("/b", "said too\n", any)
	f.Put("/c", "said here\n", any)
	f.Put("/b", "no more\n", any)
	f.Lose(lost)
	v, unread, err := history.FirstSaid(t.Context(), f.Store, "/", "said", nil)
	if err != nil || v.Seq != 3 || unread != (history.Unread{Redacted: 1, Lost: 1}) {
		t.Errorf("first said by %d, %+v, %v", v.Seq, unread, err)
	}
	unread = history.Unread{}
	if got := f.logOf("/", history.Query{Text: "said", Unread: &unread}); got != "3/c" || unread != (history.Unread{Redacted: 1, Lost: 1}) {
		t.Errorf("it was changed by %s, %+v", got, unread)
	}
}
