package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/history"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/versionlog"
)

// fixture has further methods in this package.
type fixture struct{ *memtest.Fixture }

func newFixture(t *testing.T, opts *memory.StoreOptions) *fixture {
	t.Helper()
	return &fixture{memtest.New(t, opts)}
}

var author, person = memtest.Author, memtest.Person

func TestWriteUnderExpectation(t *testing.T) {
	f := newFixture(t, nil)
	v1 := f.Put("/a", "one", versionlog.ExpectAbsent())
	v2 := f.Put("/a", "two", versionlog.ExpectVersion(v1.ID))
	if v2.Parent != v1.ID || v2.MemoryID != v1.MemoryID || v2.Op != versionlog.OpModified || v2.Actor != author.Actor || v2.Session != "sesn_1" {
		t.Errorf("second version: %+v, after %+v", v2, v1)
	}
	_, err := f.Write(t.Context(), "/a", []byte("three"), versionlog.ExpectVersion(v1.ID))
	var conflict *versionlog.ConflictError
	if !errors.As(err, &conflict) || conflict.Conflicts[0].Head.ID != v2.ID {
		t.Errorf("stale write: %v, want a conflict that carries %s", err, v2.ID)
	}
	f.WantContent("/a", "two")
	f.WantHistory("/a", "modified created")
}

func TestSameContentIsNoVersion(t *testing.T) {
	f := newFixture(t, nil)
	v1 := f.Put("/a", "one", versionlog.ExpectAbsent())
	if v := f.Put("/a", "one", versionlog.ExpectVersion("memver_other")); v.ID != v1.ID {
		t.Errorf("writing what is there made version %+v", v)
	}
	f.WantHistory("/a", "created")
	if _, err := f.Write(t.Context(), "/a", []byte("one"), versionlog.ExpectAbsent()); !errors.Is(err, versionlog.ErrConflict) {
		t.Errorf("creating what is there: %v, want a conflict", err)
	}
}

func TestPathsAreCanonical(t *testing.T) {
	f := newFixture(t, nil)
	f.Put("/cafe\u0301", "x", versionlog.ExpectAbsent())
	f.WantContent("/caf\u00e9", "x")
	for _, bad := range []string{"a", "/a/../b", "/\xff", "/.mneme/x"} {
		if _, err := f.Write(t.Context(), bad, nil, versionlog.ExpectAny()); err == nil {
			t.Errorf("write to %q succeeded", bad)
		}
	}
}

func TestLimits(t *testing.T) {
	f := newFixture(t, nil)
	at := bytes.Repeat([]byte("x"), memory.DefaultMaxMemoryBytes)
	f.Put("/full", string(at), versionlog.ExpectAbsent())
	_, err := f.Write(t.Context(), "/full", append(at, 'x'), versionlog.ExpectAny())
	var size *memory.SizeError
	if !errors.As(err, &size) || size.Size != 102401 || size.Limit != 102400 {
		t.Errorf("one byte more: %v", err)
	}
	_, err = f.Write(t.Context(), "/bin", []byte("ab\xffcd"), versionlog.ExpectAny())
	var text *memory.TextError
	if !errors.As(err, &text) || text.Offset != 2 {
		t.Errorf("not UTF-8: %v, want offset 2", err)
	}
	if _, err := f.Head(t.Context(), "/bin"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("refused content left a head: %v", err)
	}
	wide := newFixture(t, &memory.StoreOptions{MaxMemoryBytes: 200000, Content: versionlog.ContentAny})
	wide.Put("/bin", "\xff"+string(at), versionlog.ExpectAbsent())
}

func TestStoreNames(t *testing.T) {
	f := newFixture(t, nil)
	for name, slug := range map[string]string{
		"Demo Memory": "demo-memory", "a": "a", "  x--y  ": "x-y", "Team's notes (2026)": "team-s-notes-2026", "日本 tips": "tips", "été2": "t-2",
	} {
		s, err := f.Lib.CreateStore(t.Context(), name, nil)
		if err != nil || s.Slug != slug || s.Name != name {
			t.Errorf("create %q: %q, %v; want %q", name, s.Slug, err, slug)
			continue
		}
		for _, ref := range []string{s.ID, s.Slug, s.Name} {
			if found, err := f.Lib.FindStore(t.Context(), ref); err != nil || found.ID != s.ID {
				t.Errorf("find %q: %+v, %v", ref, found, err)
			}
		}
		if err := f.Lib.DeleteStore(t.Context(), s.ID); err != nil {
			t.Errorf("delete %q: %v", name, err)
		}
	}
	for _, bad := range []string{"", "日本", "---", "a\x00b", "a\u202eb", "\xff", strings.Repeat("x", 256)} {
		if _, err := f.Lib.CreateStore(t.Context(), bad, nil); !errors.Is(err, memory.ErrBadName) {
			t.Errorf("create %q: %v, want ErrBadName", bad, err)
		}
	}
	if _, err := f.Lib.CreateStore(t.Context(), "NOTES", nil); !errors.Is(err, versionlog.ErrExists) {
		t.Errorf("a second store with the slug notes: %v, want ErrExists", err)
	}
	if _, err := f.Lib.FindStore(t.Context(), "n-o-t-e-s"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("find: %v, want ErrNotFound", err)
	}
	for _, o := range []memory.StoreOptions{{MaxMemoryBytes: -1}, {MaxMemoryBytes: 1 << 40}, {Content: "html"}, {Description: strings.Repeat("x", 1025)}} {
		if _, err := f.Lib.CreateStore(t.Context(), "x", &o); !errors.Is(err, memory.ErrBadLimits) {
			t.Errorf("create with %+v: %v, want ErrBadLimits", o, err)
		}
	}
}

func TestRenameMovesTrees(t *testing.T) {
	f := newFixture(t, nil)
	a := f.Put("/d/a", "a", versionlog.ExpectAbsent())
	f.Put("/d/e/b", "b", versionlog.ExpectAbsent())
	f.Put("/dx", "other", versionlog.ExpectAbsent())
	c, err := f.Rename(t.Context(), "/d", "/new/place", nil)
	if err != nil || len(c.Versions) != 2 {
		t.Fatalf("rename: %+v, %v; want two versions in one commit", c, err)
	}
	if v := f.WantContent("/new/place/a", "a"); v.MemoryID != a.MemoryID || v.From != "/d/a" {
		t.Errorf("renamed: %+v", v)
	}
	f.WantContent("/new/place/e/b", "b")
	f.WantContent("/dx", "other")
	if _, err := f.Rename(t.Context(), "/d", "/x", nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("rename of nothing: %v", err)
	}
	if _, err := f.Rename(t.Context(), "/dx", "/new/place/a", nil); !errors.Is(err, versionlog.ErrConflict) {
		t.Errorf("rename onto a memory: %v, want a conflict", err)
	}
	if c, err := f.RemoveTree(t.Context(), "/new", nil, nil); err != nil || len(c.Versions) != 2 {
		t.Errorf("remove tree: %+v, %v", c, err)
	}
	if _, err := f.Remove(t.Context(), "/new/place/a", versionlog.ExpectExists()); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("remove of nothing: %v", err)
	}
}

func TestRestore(t *testing.T) {
	f := newFixture(t, nil)
	v1 := f.Put("/a", "one", versionlog.ExpectAbsent())
	v2 := f.Put("/a", "two", versionlog.ExpectAny())
	r, err := f.Restore(t.Context(), "/a", v1)
	if err != nil || r.Digest != v1.Digest || r.Parent != v2.ID || r.Message != "restore "+v1.ID {
		t.Errorf("restore: %+v, %v", r, err)
	}
	again, err := f.Restore(t.Context(), "/a", v1)
	if err != nil || again.ID != r.ID {
		t.Errorf("restore of what is there: %+v, %v", again, err)
	}
	gone, err := f.Remove(t.Context(), "/a", versionlog.ExpectExists())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Restore(t.Context(), "/a", gone); !errors.Is(err, memory.ErrBadVersion) || !strings.Contains(err.Error(), gone.Parent) {
		t.Errorf("restore of a deletion: %v, want the version to name its parent", err)
	}
	back, err := f.Restore(t.Context(), "/a", v2)
	if err != nil || back.MemoryID != v1.MemoryID || back.Parent != gone.ID || back.Op != versionlog.OpCreated {
		t.Errorf("restore of a deleted memory: %+v, %v", back, err)
	}
	f.WantContent("/a", "two")
	f.WantHistory("/a", "created deleted modified modified created")
}

func TestRestoreAtAnOldPath(t *testing.T) {
	f := newFixture(t, nil)
	v1 := f.Put("/a", "one", versionlog.ExpectAbsent())
	if _, err := f.Rename(t.Context(), "/a", "/b", nil); err != nil {
		t.Fatal(err)
	}
	v, err := f.Restore(t.Context(), "/a", v1)
	if err != nil || v.MemoryID == v1.MemoryID {
		t.Errorf("restore where the memory was: %+v, %v; want a memory of its own, the first one lives on at /b", v, err)
	}
	f.WantContent("/b", "one")
}

func TestResolve(t *testing.T) {
	f := newFixture(t, nil)
	v1 := f.Put("/a", "one", versionlog.ExpectAbsent())
	other := f.Put("/b", "other", versionlog.ExpectAbsent())
	v2 := f.Put("/a", "two", versionlog.ExpectAny())
	for ref, want := range map[string]string{v1.ID: v1.ID, v2.ID: v2.ID, "1": v1.ID, "3": v2.ID} {
		if v, err := history.Resolve(t.Context(), f.Store, "/a", ref); err != nil || v.ID != want {
			t.Errorf("resolve %s: %s, %v; want %s", ref, v.ID, err, want)
		}
	}
	forged := v1.ID[:len(v1.ID)-1] + "0" // the right place, another version
	if forged == v1.ID {
		forged = v1.ID[:len(v1.ID)-1] + "4"
	}
	for ref, want := range map[string]error{
		other.ID: memory.ErrBadVersion, "2": versionlog.ErrNotFound, "99": versionlog.ErrNotFound,
		"": memory.ErrBadVersion, "v1": memory.ErrBadVersion, "memver_x": memory.ErrBadVersion, "-1": memory.ErrBadVersion,
		forged: versionlog.ErrNotFound,
	} {
		if v, err := history.Resolve(t.Context(), f.Store, "/a", ref); !errors.Is(err, want) {
			t.Errorf("resolve %q: %s, %v; want %v", ref, v.ID, err, want)
		}
	}
	if s, v, err := f.Lib.FindVersion(t.Context(), v1.ID); err != nil || v.ID != v1.ID || s.Slug != "notes" {
		t.Errorf("find version: %v, %v, %v", s, v, err)
	}
}

func TestResolveEarlierMemoryOfThePath(t *testing.T) {
	f := newFixture(t, nil)
	v1 := f.Put("/a", "one", versionlog.ExpectAbsent())
	if _, err := f.Remove(t.Context(), "/a", versionlog.ExpectExists()); err != nil {
		t.Fatal(err)
	}
	f.Put("/a", "another", versionlog.ExpectAbsent())
	if v, err := history.Resolve(t.Context(), f.Store, "/a", v1.ID); err != nil || v.ID != v1.ID {
		t.Errorf("resolve a version of the memory that was at the path before: %s, %v", v.ID, err)
	}
}

func TestReadOnlyAndArchived(t *testing.T) {
	f := newFixture(t, nil)
	f.Put("/a", "one", versionlog.ExpectAbsent())
	ro, err := f.Lib.Open(t.Context(), f.Info().ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ro.Write(t.Context(), "/a", []byte("x"), versionlog.ExpectAny()); !errors.Is(err, memory.ErrReadOnly) {
		t.Errorf("write to a read-only store: %v", err)
	}
	if err := f.Lib.ArchiveStore(t.Context(), f.Info().ID, author.Actor); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(t.Context(), "/a", []byte("x"), versionlog.ExpectAny()); !errors.Is(err, versionlog.ErrArchived) {
		t.Errorf("write to an archived store: %v", err)
	}
	f.WantContent("/a", "one")
	if _, err := f.Remove(t.Context(), "/a", versionlog.ExpectExists()); err != nil {
		t.Errorf("removal from an archived store: %v", err)
	}
}

func TestLostBlobsAreErrors(t *testing.T) {
	f := newFixture(t, nil)
	v := f.Put("/a", "one", versionlog.ExpectAbsent())
	blobs := f.Blobs[f.Info().ID]
	blobs.Corrupt(v.Digest, []byte("two"))
	if _, data, err := f.Read(t.Context(), "/a"); !errors.Is(err, cas.ErrCorrupt) || data != nil {
		t.Errorf("read of a changed blob: %q, %v", data, err)
	}
	if err := blobs.Delete(t.Context(), v.Digest); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Read(t.Context(), "/a"); !errors.Is(err, cas.ErrNotFound) || errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("read of a lost blob: %v; it must not look like a missing memory", err)
	}
}

func TestDeleteStoreErasesBlobs(t *testing.T) {
	f := newFixture(t, nil)
	f.Put("/a", "secret", versionlog.ExpectAbsent())
	id := f.Info().ID
	if err := f.Lib.DeleteStore(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for d := range f.Blobs[id].List(t.Context()) {
		t.Errorf("blob %v outlived its store", d)
	}
	if _, err := f.Lib.Open(t.Context(), id, nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("open: %v", err)
	}
}

func TestFollow(t *testing.T) {
	t.Run("log that hands commits out", func(t *testing.T) { testFollow(t, newFixture(t, nil)) })
	t.Run("log that does not", func(t *testing.T) {
		f := newFixture(t, nil)
		f.hideNext()
		testFollow(t, f)
	})
}

func testFollow(t *testing.T, f *fixture) {
	f.Put("/before", "x", versionlog.ExpectAbsent())
	begin, err := f.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 450 // more than are read at once
	go func() {
		for i := range n {
			_, _ = f.Write(context.Background(), fmt.Sprint("/", i), []byte("x"), versionlog.ExpectAbsent())
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	next := uint64(2)
	err = f.Follow(ctx, begin, func(c *versionlog.Commit) error {
		if c.Seq != next {
			t.Errorf("commit %d, want %d", c.Seq, next)
		}
		if next++; next > n+1 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || next != n+2 {
		t.Errorf("follow: %v after commit %d", err, next-1)
	}
	begin.Digest[0] ^= 1
	err = f.Follow(t.Context(), begin, func(c *versionlog.Commit) error { return fmt.Errorf("commit %d of another history", c.Seq) })
	if !errors.Is(err, versionlog.ErrRewritten) {
		t.Errorf("follow from another commit: %v, want ErrRewritten", err)
	}
}

func TestDiff(t *testing.T) {
	if d := history.Diff("a", "b", []byte("x\n"), []byte("x\n")); d != "" {
		t.Errorf("equal content differs: %s", d)
	}
	want := "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
	if d := history.Diff("a", "b", []byte("one\ntwo\n"), []byte("one\nTWO\n")); d != want {
		t.Errorf("diff: %q, want %q", d, want)
	}
	if d := history.Diff("a", "b", []byte("x"), []byte("\x00")); !strings.Contains(d, "Binary") {
		t.Errorf("binary diff: %q", d)
	}
}

// hideNext opens the fixture's store on a log that only has the methods of
// versionlog.Log.
func (f *fixture) hideNext() {
	f.T.Helper()
	lib := memory.NewLibrary(struct{ versionlog.Log }{f.Log}, func(id string) (cas.Store, error) { return f.Blobs[id], nil })
	var err error
	if f.Store, err = lib.Open(f.T.Context(), f.Info().ID, author); err != nil {
		f.T.Fatal(err)
	}
}

// TestHistoryOfPath saves a file again and again by renaming the old one away:
// the history of the path has every version, and each can be read, compared and
// restored.
func TestHistoryOfPath(t *testing.T) {
	f := newFixture(t, nil)
	first := f.Put("/a", "one", versionlog.ExpectAbsent())
	f.Put("/a", "two", versionlog.ExpectAny())
	for _, text := range []string{"three", "four"} {
		if _, err := f.Rename(t.Context(), "/a", "/a.bck", nil); err != nil {
			t.Fatal(err)
		}
		saved := f.Put("/a", text, versionlog.ExpectAbsent())
		if before, ok, err := history.Replaced(t.Context(), f.Store, "/a", saved); err != nil || !ok || before.From != "/a" {
			t.Errorf("%s took the place of %+v, %v, %v", text, before, ok, err)
		}
		if _, err := f.Remove(t.Context(), "/a.bck", versionlog.ExpectExists()); err != nil {
			t.Fatal(err)
		}
	}
	f.WantHistory("/a", "created renamed created renamed modified created")
	f.WantHistory("/a.bck", "deleted renamed deleted created renamed")
	if v, err := history.Resolve(t.Context(), f.Store, "/a", "1"); err != nil || v.ID != first.ID {
		t.Errorf("resolve 1: %+v, %v", v, err)
	}
	renamed, err := history.Resolve(t.Context(), f.Store, "/a", "3")
	if err != nil || renamed.Op != versionlog.OpRenamed {
		t.Errorf("resolve 3: %+v, %v", renamed, err)
	}
	if v, err := history.Resolve(t.Context(), f.Store, "/a", renamed.ID); err != nil || v.ID != renamed.ID {
		t.Errorf("resolve %s: %+v, %v", renamed.ID, v, err)
	}
	if v, err := history.Resolve(t.Context(), f.Store, "/a", "5"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("resolve the deletion of /a.bck: %+v, %v", v, err)
	}
	head, err := f.Head(t.Context(), "/a")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Restore(t.Context(), "/a", first); err != nil || v.MemoryID != head.MemoryID || v.Parent != head.ID || v.Digest != first.Digest {
		t.Errorf("restore: %+v, %v", v, err)
	}
	if _, err := f.Remove(t.Context(), "/a", versionlog.ExpectExists()); err != nil {
		t.Fatal(err)
	}
	if v, err := f.Restore(t.Context(), "/a", first); err != nil || v.MemoryID != first.MemoryID {
		t.Errorf("restore at the path that is free: %+v, %v; want the old memory back", v, err)
	}
	f.WantHistory("/a", "created deleted modified created renamed deleted created renamed modified created")
	made := f.Put("/b", "b", versionlog.ExpectAbsent())
	if before, ok, err := history.Replaced(t.Context(), f.Store, "/b", made); err != nil || ok {
		t.Errorf("a new memory took the place of %+v, %v", before, err)
	}
}

// TestHistoryOfPathFollowsMemory: the memory that is at a path brings along what
// it was elsewhere, also while others were at the path; those end where they left.
func TestHistoryOfPathFollowsMemory(t *testing.T) {
	f := newFixture(t, nil)
	rename := func(from, to string) {
		t.Helper()
		if _, err := f.Rename(t.Context(), from, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	f.Put("/x", "elsewhere", versionlog.ExpectAbsent()) // 1
	f.Put("/a", "other", versionlog.ExpectAbsent())
	f.Put("/x", "elsewhere still", versionlog.ExpectAny())
	rename("/a", "/b")
	f.Put("/b", "what it became", versionlog.ExpectAny()) // 5: not of /a
	rename("/x", "/a")
	f.Put("/a", "here", versionlog.ExpectAny()) // 7
	var seqs []uint64
	for v, err := range history.Versions(t.Context(), f.Store, "/a") {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, v.Seq)
	}
	if want := []uint64{7, 6, 4, 3, 2, 1}; !slices.Equal(seqs, want) {
		t.Errorf("the history of /a has %v, want %v", seqs, want)
	}
	for ref, want := range map[string]bool{"1": true, "3": true, "4": true, "5": false} {
		if v, err := history.Resolve(t.Context(), f.Store, "/a", ref); (err == nil) != want {
			t.Errorf("resolve %s: %+v, %v", ref, v, err)
		}
	}
}
