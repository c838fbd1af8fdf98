package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/versionlog"
)

// TestCopyTo holds that a copy has what was committed before it was begun, follows
// from one moment, and that the log is committed to meanwhile.
func TestCopyTo(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	large := strings.Repeat("x", 20_000)
	for i := range 50 {
		commitContent(t, l, s.ID, fmt.Sprintf("/%d", i), fmt.Sprint(large, i))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var err error
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			_, err = l.Commit(t.Context(), s.ID, withContent(fmt.Sprintf("/%d", i%50), fmt.Sprint("new ", i), versionlog.ExpectAny()))
		}
		ended <- err
	}()
	for range 5 {
		before, err := l.Tip(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		if err := openTest(t, dir, &Options{ReadOnly: true}).CopyTo(t.Context(), to, nil); err != nil {
			t.Fatal(err)
		}
		checkCopy(t, to, s.ID, before.Seq)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("commit beside a copy: %v", err)
	}
}

func commitContent(t testing.TB, l *Log, storeID, path, content string) {
	t.Helper()
	if _, err := l.Commit(t.Context(), storeID, withContent(path, content, versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
}

// checkCopy reads a copy: its records follow one another up to its tip, which is
// seq or later, and every head has its bytes.
func checkCopy(t *testing.T, dir, storeID string, seq uint64) {
	t.Helper()
	l := openTest(t, dir, &Options{ReadOnly: true})
	tip, err := l.Tip(t.Context(), storeID)
	if err != nil || tip.Seq < seq {
		t.Fatalf("the copy ends at %d, %v; want %d or later", tip.Seq, err, seq)
	}
	var last versionlog.Digest
	for c, err := range l.Commits(t.Context(), storeID, 0) {
		if err != nil || c.Prev != last {
			t.Fatalf("the history of the copy breaks: %v", err)
		}
		last = c.Digest
	}
	if last != tip.Digest {
		t.Error("the copy's tip is not its last record")
	}
	blobs := l.Blobs(storeID)
	for v, err := range l.Heads(t.Context(), storeID, "/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blobs.Get(t.Context(), v.Digest); err != nil {
			t.Error(err)
		}
	}
}

// TestCopyHasNothingDeleted holds that what is no row any more is not in a copy,
// whatever pages it may still lie in.
func TestCopyHasNothingDeleted(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	other := addStore(t, l, "other")
	const secret = "the launch code is "
	reader := openTest(t, dir, &Options{ReadOnly: true})
	for i := range 20 {
		commitContent(t, l, other.ID, fmt.Sprintf("/%d", i), strings.Repeat(secret, 1+i*100))
	}
	commitContent(t, l, s.ID, "/a", "kept")
	whole := t.TempDir()
	if err := reader.CopyTo(t.Context(), whole, nil); err != nil {
		t.Fatal(err)
	}
	if n := occurrences(t, whole, secret); n == 0 {
		t.Fatal("the test does not find what is there")
	}
	if err := Retain(t.Context(), whole, []string{s.ID}); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, whole, s.ID, 1)
	if err := l.DeleteStore(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	later := t.TempDir()
	if err := reader.CopyTo(t.Context(), later, nil); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{whole, later} {
		if n := occurrences(t, dir, secret); n > 0 {
			t.Errorf("it is in the copy %d times", n)
		}
		if stores, err := versionlog.AllStores(t.Context(), openTest(t, dir, &Options{ReadOnly: true})); err != nil || len(stores) != 1 {
			t.Errorf("the copy has %v, %v; want one store", stores, err)
		}
	}
	first, second := size(t, whole), size(t, later)
	if first != second {
		t.Errorf("what was removed from a copy takes room in it: %d bytes, and %d where it never was", first, second)
	}
}

// occurrences counts a text in all files of a directory.
func occurrences(t *testing.T, dir, text string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(data), text)
	}
	return n
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestContentsElsewhere(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	s := addStore(t, l, "s")
	commitContent(t, l, s.ID, "/in", "in the log")
	put(t, l, s.ID, "/out", "a file")
	put(t, l, s.ID, "/out", "another")
	put(t, l, s.ID, "/same", "another")
	if _, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{{
		Action: versionlog.Remove, Path: "/out", Expect: versionlog.ExpectAny(),
	}}}); err != nil {
		t.Fatal(err)
	}
	got, err := l.ContentsElsewhere(t.Context(), s.ID)
	want := map[cas.Digest]bool{cas.Sum([]byte("a file")): true, cas.Sum([]byte("another")): true}
	if err != nil || len(got) != 2 || !want[got[0]] || !want[got[1]] || got[0] == got[1] {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// TestCopyEnds holds that a copy replaces no log, and ends with its context.
func TestCopyEnds(t *testing.T) {
	dir, _ := newLog(t)
	l := openTest(t, dir, nil)
	if err := l.CopyTo(t.Context(), dir, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over itself: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.CopyTo(ctx, t.TempDir(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if err := l.CopyTo(t.Context(), filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a copy into a directory that is not there")
	}
}
