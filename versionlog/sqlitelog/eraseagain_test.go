package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mneme/versionlog"
)

// renamed commits a rename.
func renamed(t testing.TB, l *Log, storeID, from, to string) *versionlog.Commit {
	t.Helper()
	change := versionlog.Change{Action: versionlog.Rename, Path: from, To: to, Expect: versionlog.ExpectAny()}
	c, err := l.Commit(t.Context(), storeID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{change}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEraseOutdatesSlices: a slice that was planned before does not write back a record
// that was erased, also where no content has gone.
func TestEraseOutdatesSlices(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	commitContent(t, l, s.ID, "/canary", "1")
	c := renamed(t, l, s.ID, "/canary", "/canary-2")
	renamed(t, l, s.ID, "/canary-2", "/c")
	for i := range frameRecords {
		commitContent(t, l, s.ID, "/c", fmt.Sprint(i))
	}
	planned, err := plan(t.Context(), l.db, 1, nil, cursor{})
	if err != nil || len(planned.frames) == 0 {
		t.Fatalf("%+v, %v", planned, err)
	}
	redact(t, l, s.ID, c.Versions[0].ID)
	if err := l.apply(t.Context(), planned); !errors.Is(err, errMoved) {
		t.Errorf("applied with a record that was erased: %v", err)
	}
	packAll(t, l)
	all, err := commitsOf(t, l, s.ID, 0)
	if err != nil || !all[1].Versions[0].Redacted() {
		t.Errorf("the record is %+v, %v", all[1], err)
	}
	checkPacked(t, l, s.ID)
}

// TestEraseBesideRemoval: a file that a redaction leaves to be removed, while another
// process removes those of packed contents, is not forgotten.
func TestEraseBesideRemoval(t *testing.T) {
	dir := t.TempDir()
	opts := &Options{Files: filesBelow(dir)}
	l, other := openTest(t, dir, opts), openTest(t, dir, opts)
	s := addStore(t, l, "s")
	files, err := l.filesOf(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("canary content ", MaxContent/10)
	if _, err := files.Put(t.Context(), []byte(large)); err != nil {
		t.Fatal(err)
	}
	c := put(t, l, s.ID, "/a", large)
	if _, err := l.Commit(t.Context(), s.ID, withContent("/a", "2", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	l.packer.reading = func(ctx context.Context, do func(source) error) error {
		redact(t, other, s.ID, c.Versions[0].ID)
		return l.reading(ctx, do)
	}
	if err := l.packer.removeFiles(t.Context(), 1, s.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := queryAll(t.Context(), l.db, filesLeft, scanDigest, 1); err != nil || len(left) != 1 {
		t.Errorf("left to be removed: %v, %v", left, err)
	}
	purged(t, other, s.ID)
	wantNoTrace(t, dir, "canary")
}
