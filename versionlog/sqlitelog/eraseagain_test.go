package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/internal/sqlite"
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
	if err != nil || planned.frame == nil {
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

// TestEraseThenRetry: a commit that is tried again brings nothing back that was erased
// meanwhile, and what was stored for it goes.
func TestEraseThenRetry(t *testing.T) {
	dir := t.TempDir()
	files, err := dircas.Open(filepath.Join(dir, "files"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := openTest(t, dir, &Options{Files: func(string) (Files, error) { return files, nil }})
	s := addStore(t, l, "s")
	large := strings.Repeat("canary content ", MaxContent/10)
	proposals := []*versionlog.Proposal{withContent("/a", "canary", versionlog.ExpectAny()), putProposal("/b", large)}
	try := func() (ids []string) {
		t.Helper()
		if _, err := files.Put(t.Context(), []byte(large)); err != nil {
			t.Fatal(err)
		}
		for _, p := range proposals {
			c, err := l.Commit(t.Context(), s.ID, p)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.Versions[0].ID)
		}
		return ids
	}
	ids := try()
	for _, path := range []string{"/a", "/b"} {
		if _, err := l.Commit(t.Context(), s.ID, withContent(path, "2", versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
	}
	try() // with nothing erased they stay
	checkPacked(t, l, s.ID)
	redact(t, l, s.ID, ids...)
	purged(t, l, s.ID)
	try()
	wantNoTrace(t, dir, "canary")
	checkPacked(t, l, s.ID)
}

// TestEraseOrphans: contents that no version has go with the next redaction; those of
// other stores stay, for an import to come.
func TestEraseOrphans(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, &Options{Files: filesBelow(dir)})
	s, other := addStore(t, l, "s"), addStore(t, l, "other")
	large := strings.Repeat("canary content ", MaxContent/10)
	for _, id := range []string{s.ID, other.ID} {
		files, err := l.filesOf(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, store := range []cas.Store{l.Blobs(id), files} {
			if _, err := store.Put(t.Context(), []byte(large)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := l.Commit(t.Context(), s.ID, withContent("/a", "1", versionlog.ExpectAny()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), s.ID, withContent("/a", "2", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	redact(t, l, s.ID, c.Versions[0].ID)
	purged(t, l, s.ID)
	for id, want := range map[string]bool{s.ID: false, other.ID: true} {
		files, err := l.filesOf(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, store := range []cas.Store{l.Blobs(id), files} {
			if there, err := store.Has(t.Context(), cas.Sum([]byte(large))); there != want || err != nil {
				t.Errorf("%T of store %s: there: %v, %v; want %v", store, id, there, err, want)
			}
		}
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

// pacedAt has a log, which has done nothing yet, pack at a pace from now on.
func pacedAt(t testing.TB, l *Log, at pace) {
	t.Helper()
	p := l.packer
	p.stop()
	p.done.Wait()
	<-p.wake // it does nothing but what it is woken for
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	p.pace = at
	p.done.Go(func() { p.loop(ctx) })
}

// eventually waits for the work of another goroutine.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); runtime.Gosched() {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s does not come to be", what)
		}
	}
}

// TestEraseLeftToOthers: a process that does nothing but follow finishes a redaction whose
// process has ended, also after it could not while another process read.
func TestEraseLeftToOthers(t *testing.T) {
	patience := purgePatience
	purgePatience = time.Millisecond
	t.Cleanup(func() { purgePatience = patience })
	dir := t.TempDir()
	l, other, reader := openTest(t, dir, nil), openTest(t, dir, nil), openTest(t, dir, nil)
	s := addStore(t, l, "s")
	commitContent(t, l, s.ID, "/canary", "1")
	c := renamed(t, l, s.ID, "/canary", "/canary-2")
	last := renamed(t, l, s.ID, "/canary-2", "/c")
	soon := restless
	soon.retry = time.Millisecond
	pacedAt(t, other, soon)
	err := reader.db.With(t.Context(), func(conn *sqlite.Conn) error {
		return conn.Reading(func() error {
			if err := conn.Each(`SELECT count(*) FROM versions`, func(*sqlite.Row) error { return nil }); err != nil {
				return err
			}
			redact(t, l, s.ID, c.Versions[0].ID)
			closeOnce(t, l)
			if _, err := other.Next(t.Context(), s.ID, last.Seq); err != nil {
				return err
			}
			eventually(t, "a purge beside a reader", func() bool {
				other.purger.mu.Lock()
				defer other.purger.mu.Unlock()
				done := other.purger.done
				return len(done) > 0 && done[len(done)-1].Why != ""
			})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rest of the purge", func() bool { return !other.hasTraces() })
	wantNoTrace(t, dir, fmt.Sprintf("%x", c.Seals[0].Salt))
	checkPacked(t, other, s.ID)
}
