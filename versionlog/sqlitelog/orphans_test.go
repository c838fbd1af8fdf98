package sqlitelog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/versionlog"
)

// TestOrphansAreJudgedAgain: what was of no version, and is of one by the time at which it would
// be removed, or was put again, stays; a commit that comes too late is refused, and one whose
// content was stored again is not.
func TestOrphansAreJudgedAgain(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	l := openTest(t, dir, &Options{Files: filesBelow(dir)})
	s := addStore(t, l, "s")
	files, err := l.filesOf(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	large := func(letter string) string { return strings.Repeat(letter, MaxContent+1) }
	store := func(text string) cas.Digest {
		t.Helper()
		d, err := files.Put(ctx, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	commit := func(path, text string) error {
		p := withContent(path, text, versionlog.ExpectAny())
		p.Changes[0].Content = nil
		_, err := l.Commit(ctx, s.ID, p)
		return err
	}
	orphans := func(before time.Time) []orphan {
		t.Helper()
		all, err := l.orphans(ctx, 1, s.ID, before)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	remove := func(all []orphan, before time.Time) int {
		t.Helper()
		gone, err := l.removeOrphans(ctx, 1, s.ID, all, before)
		if err != nil {
			t.Fatal(err)
		}
		return len(gone)
	}
	store(large("a"))
	found := orphans(time.Time{})
	if err := commit("/a", large("a")); err != nil || len(found) != 1 {
		t.Fatalf("found %d, %v", len(found), err)
	}
	if n := remove(found, time.Time{}); n != 0 {
		t.Error("the content of a version was removed")
	}
	store(large("b"))
	if n := remove(orphans(time.Time{}), time.Time{}); n != 1 {
		t.Errorf("%d contents were removed", n)
	}
	if err := commit("/b", large("b")); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a commit whose content is gone: %v", err)
	}
	store(large("b"))
	if err := commit("/b", large("b")); err != nil {
		t.Error(err)
	}
	d := store(large("c"))
	before := time.Now().Add(-time.Hour)
	if all := orphans(before); len(all) != 0 {
		t.Errorf("found %+v, which is young", all)
	}
	old := before.Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "files", s.ID, d.String()[:2], d.String()), old, old); err != nil {
		t.Fatal(err)
	}
	found = orphans(before)
	store(large("c"))
	if n := remove(found, before); len(found) != 1 || n != 0 {
		t.Errorf("found %d; what was put again was removed", len(found))
	}
	checkPacked(t, l, s.ID)
}

// TestOrphansInRows: a row goes once a row behind it belongs to a commit that is older than the
// grace time.
func TestOrphansInRows(t *testing.T) {
	ctx := t.Context()
	now := time.Now()
	l := openTest(t, t.TempDir(), &Options{Now: func() time.Time { return now }})
	s := addStore(t, l, "s")
	collect := func(want int, size int64) {
		t.Helper()
		for _, keep := range []bool{true, false} {
			if found, err := l.Collect(ctx, s.ID, time.Hour, keep, nil); err != nil || found != (Orphans{want, size}) {
				t.Errorf("found %+v, %v; want %d", found, err, want)
			}
		}
	}
	write := func(path, text string) {
		t.Helper()
		if _, err := l.Commit(ctx, s.ID, withContent(path, text, versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
	}
	write("/old", "old")
	now = now.Add(2 * time.Hour)
	for _, text := range []string{"lost", "imports"} {
		if _, err := l.Blobs(s.ID).Put(ctx, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("/young", "young")
	write("/kept", "imports")
	collect(0, 0)
	now = now.Add(2 * time.Hour)
	collect(1, 4)
	collect(0, 0)
	if found, err := l.Collect(ctx, s.ID, 0, false, nil); err != nil || found != (Orphans{}) {
		t.Errorf("found %+v, %v", found, err)
	}
	checkPacked(t, l, s.ID)
}
