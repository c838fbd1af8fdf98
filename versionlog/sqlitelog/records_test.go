package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// commitsOf returns the commits of a store above a sequence number, and what ended them.
func commitsOf(t testing.TB, l *Log, storeID string, after uint64) (all []*versionlog.Commit, err error) {
	t.Helper()
	for c, err := range l.Commits(t.Context(), storeID, after) {
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// inFrames returns which commits have no record of their own.
func inFrames(t testing.TB, dir string) string {
	t.Helper()
	return strings.Join(texts(t, raw(t, dir), `SELECT seq FROM commits WHERE length(record) = 0 ORDER BY seq`), " ")
}

// frames returns which frames there are.
func frames(t testing.TB, dir string) string {
	t.Helper()
	return strings.Join(texts(t, raw(t, dir), `SELECT seq || '-' || last FROM packed_records ORDER BY seq`), " ")
}

// newFramed makes a log with so many commits, whose records are in frames as far as they
// fill some.
func newFramed(t testing.TB, commits int) (dir string, l *Log, storeID string) {
	t.Helper()
	dir = t.TempDir()
	l = openTest(t, dir, nil)
	storeID = addStore(t, l, "s").ID
	for i := range commits {
		commitContent(t, l, storeID, fmt.Sprint("/", i), "x")
	}
	packAll(t, l)
	return dir, l, storeID
}

// TestRecordsInFrames: a history reads the same, whichever of its records are in frames.
func TestRecordsInFrames(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addDescribed(t, l, "s")
	var last *versionlog.Proposal
	for i := range 10 {
		last = withContent(fmt.Sprint("/", i%3), fmt.Sprint("content ", i), versionlog.ExpectAny())
		last.Session, last.Message = fmt.Sprint("session ", i%2), strings.Repeat("line\n", i)
		if _, err := l.Commit(t.Context(), s.ID, last); err != nil {
			t.Fatal(err)
		}
	}
	reads := func(l *Log) (all [][]*versionlog.Commit) {
		for after := range uint64(12) {
			found, err := commitsOf(t, l, s.ID, after)
			if err != nil {
				t.Error(err)
			}
			all = append(all, found)
		}
		var newestFirst []*versionlog.Commit
		for c, err := range l.CommitsBefore(t.Context(), s.ID, 11, versionlog.Filter{Session: "session 1"}) {
			if err != nil {
				t.Error(err)
			}
			newestFirst = append(newestFirst, c)
		}
		return append(all, newestFirst)
	}
	want := reads(l)
	packAll(t, l)
	if got := inFrames(t, dir); got != "1 2 3 4 5 6 7 8 9" {
		t.Fatalf("in frames are %s", got)
	}
	wantSame := func(l *Log) {
		t.Helper()
		if diff := cmp.Diff(want, reads(l)); diff != "" {
			t.Errorf("before -, now +:\n%s", diff)
		}
	}
	wantSame(l)
	wantSame(openTest(t, dir, &Options{ReadOnly: true}))
	copied := t.TempDir()
	if err := l.CopyTo(t.Context(), copied, nil); err != nil {
		t.Fatal(err)
	}
	wantSame(openTest(t, copied, nil))
	commitContent(t, l, s.ID, "/more", "x") // the twelfth, which fills a frame
	packAll(t, l)
	again, err := l.Commit(t.Context(), s.ID, last)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[10][0], again); diff != "" {
		t.Errorf("a repeated commit, then -, now +:\n%s", diff)
	}
	checkPacked(t, l, s.ID)
}

// TestFramesAroundDamage: a record that cannot be read, or is too long, stays where it is,
// and those around it go into frames.
func TestFramesAroundDamage(t *testing.T) {
	dir, l, id := newFramed(t, 0)
	for seq := range 12 {
		p := putProposal(fmt.Sprint("/", seq), "x")
		p.Message = strings.Repeat("x", map[int]int{6: frameBytes, 8: frameBytes * 2 / 3, 9: frameBytes * 2 / 3}[seq])
		if _, err := l.Commit(t.Context(), id, p); err != nil {
			t.Fatal(err)
		}
	}
	change(t, dir, `UPDATE commits SET record = x'7b' WHERE seq = 2`)
	packAll(t, l)
	if got, want := frames(t, dir), "1-1 3-4 5-6 8-9 10-12"; got != want {
		t.Errorf("frames are %s, want %s", got, want)
	}
	if found, err := commitsOf(t, l, id, 0); len(found) != 1 || !errors.Is(err, versionlog.ErrCorrupt) {
		t.Errorf("%d commits, then %v; want the one before the damaged one", len(found), err)
	}
	if found, err := commitsOf(t, l, id, 2); len(found) != 10 || err != nil {
		t.Errorf("%d commits behind the damaged one, %v", len(found), err)
	}
	for i := range frameRecords {
		put(t, l, id, "/more", fmt.Sprint(i))
	}
	change(t, dir, `UPDATE commits SET record = x'7b' WHERE seq > 12`)
	packAll(t, l)
	if worked, err := l.packer.step(t.Context(), 1); worked || err != nil {
		t.Errorf("where all is damaged, packing goes on: %v, %v", worked, err)
	}
}

// TestDamagedRecordFrame: a frame that is damaged takes its own records with it and no
// others, and the check of the rows goes on.
func TestDamagedRecordFrame(t *testing.T) {
	dir, l, id := newFramed(t, 9)
	closeOnce(t, l)
	change(t, dir, `PRAGMA wal_checkpoint(TRUNCATE)`)
	database := read(t, filepath.Join(dir, DatabaseName))
	if found := checked(t, database, id); found != nil {
		t.Fatalf("of a sound log: %q", found)
	}
	const other = "row packed_records 4: it is not of just those commits that have no record of their own"
	for _, test := range []struct{ statement, want string }{
		{`UPDATE packed_records SET data = x'00' WHERE seq = 4`, ""},
		{`UPDATE packed_records SET data = (SELECT data FROM packed_records WHERE seq = 1) WHERE seq = 4`, ""},
		{`UPDATE packed_records SET seq = 0 - 4, last = 0 - 2 WHERE seq = 4`, strings.ReplaceAll(other, " 4:", " -4:")},
		{`UPDATE commits SET record = x'7b' WHERE seq = 5`, other},
		{`DELETE FROM commits WHERE seq = 5`, "row versions 5: it is of no commit\n" + other},
	} {
		if got := strings.Join(checked(t, database, id, test.statement), "\n"); got != test.want {
			t.Errorf("%s: %q, want %q", test.statement, got, test.want)
		}
	}
	for _, statement := range []string{`UPDATE packed_records SET data = x'00' WHERE seq = 4`, `DELETE FROM packed_records WHERE seq = 4`} {
		change(t, dir, statement)
		l := openTest(t, dir, nil)
		for after, want := range []int{3, 2, 1, 0, 0, 0, 3, 2, 1} {
			found, err := commitsOf(t, l, id, uint64(after))
			if len(found) != want || (err != nil) != (after < 6) || err != nil && !errors.Is(err, versionlog.ErrCorrupt) {
				t.Errorf("%s: after %d: %d commits, then %v", statement, after, len(found), err)
			}
		}
		closeOnce(t, l)
	}
}

// countingSource counts what is read.
type countingSource struct {
	source
	reads int
}

func (s *countingSource) With(ctx context.Context, do func(*sqlite.Conn) error) error {
	s.reads++
	return s.source.With(ctx, do)
}

// TestFrameIsReadOnce: a walk over commits that follow one another reads each frame once.
func TestFrameIsReadOnce(t *testing.T) {
	_, l, id := newFramed(t, 9)
	s, err := l.store(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	counting := &countingSource{source: l.db}
	for _, err := range commitsAfter(t.Context(), counting, &s, 0) {
		if err != nil {
			t.Error(err)
		}
	}
	if pages, frames := 2, 3; counting.reads != pages+frames {
		t.Errorf("%d reads, want %d", counting.reads, pages+frames)
	}
}

// TestDamagedFrameIsOneProblem: the error for each record of a frame that does not decode
// is the same, and speaks of no content.
func TestDamagedFrameIsOneProblem(t *testing.T) {
	dir, l, id := newFramed(t, 9)
	change(t, dir, `UPDATE packed_records SET data = x'00' WHERE seq = 4`)
	for after := range uint64(6) {
		_, err := commitsOf(t, l, id, after)
		if err == nil || !strings.HasSuffix(err.Error(), "the frame with the records of commits 4 to 6 does not decode") || errors.Is(err, cas.ErrCorrupt) {
			t.Errorf("after %d: %v", after, err)
		}
	}
}

// failingContext fails once, when it has been asked so often whether it has ended.
type failingContext struct {
	context.Context
	asked int
}

func (c *failingContext) Err() error {
	if c.asked--; c.asked == -1 {
		return context.Canceled
	}
	return nil
}

// TestCheckReadsFrames: a frame that could not be read is an error of the check, not a
// record that is damaged.
func TestCheckReadsFrames(t *testing.T) {
	_, l, id := newFramed(t, 9)
	for asked := 0; ; asked++ {
		ctx := &failingContext{t.Context(), asked}
		err := l.Check(ctx, id, func(p Problem) { t.Errorf("failing at %d: %v", asked, p) })
		if ctx.asked >= 0 {
			break // it has ended before
		}
		if err == nil {
			t.Errorf("failing at %d is no error", asked)
		}
	}
}

// TestInterruptedWalk: a walk that is interrupted while it reads a frame does not call the
// record damaged.
func TestInterruptedWalk(t *testing.T) {
	_, l, id := newFramed(t, 9)
	for asked, whole := 0, false; !whole; asked++ {
		whole = true
		for _, err := range l.Commits(&endingContext{t.Context(), asked}, id, 0) {
			if err == nil {
				continue
			}
			if whole = false; !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted at %d: %v", asked, err)
			}
		}
	}
}

// TestFramesOnce: a frame that was planned before another process made it is not
// applied.
func TestFramesOnce(t *testing.T) {
	dir, l, id := newFramed(t, 2)
	for i := range 5 {
		commitContent(t, l, id, fmt.Sprint("/n", i), "x")
	}
	planned, err := plan(t.Context(), l.db, 1, nil, cursor{})
	if err != nil || planned.frame == nil {
		t.Fatalf("%+v, %v", planned, err)
	}
	other := &slice{store: planned.store, from: planned.from, to: planned.from.cursor, frame: planned.frame}
	if err := openTest(t, dir, nil).apply(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := l.apply(t.Context(), planned); !errors.Is(err, errMoved) {
		t.Errorf("a slice from before: %v", err)
	}
	packAll(t, l)
	if got, want := frames(t, dir), "1-3 4-6"; got != want {
		t.Errorf("frames are %s, want %s", got, want)
	}
	checkPacked(t, l, id)
}

// TestReadBesideFraming: a caller that reads while records go into frames misses none.
func TestReadBesideFraming(t *testing.T) {
	dir, l, id := newFramed(t, 0)
	reader := openTest(t, dir, &Options{ReadOnly: true})
	const commits = 60
	for i := range commits {
		put(t, l, id, fmt.Sprint("/", i), "x")
	}
	var all sync.WaitGroup
	packed := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for done := false; !done; {
				select {
				case <-packed:
					done = true
				default:
				}
				found, err := commitsOf(t, reader, id, 0)
				if len(found) != commits || err != nil {
					t.Errorf("%d commits, %v", len(found), err)
					return
				}
			}
		})
	}
	packAll(t, l)
	close(packed)
	all.Wait()
	if n := len(strings.Fields(inFrames(t, dir))); n != commits {
		t.Errorf("%d records are in frames", n)
	}
}

// TestDeletedWhileRead: a walk over the history of a store that is being deleted does not
// say that it is damaged.
func TestDeletedWhileRead(t *testing.T) {
	for _, statement := range []string{`DELETE FROM packed_records`, `DELETE FROM commits WHERE seq < 8`} {
		dir, l, id := newFramed(t, 12)
		commits := 0
		var last error
		for _, err := range l.Commits(t.Context(), id, 0) {
			if commits++; commits == 1 {
				change(t, dir, `DELETE FROM stores`, statement) // as DeleteStore does, slice by slice
			}
			last = err
		}
		if !errors.Is(last, versionlog.ErrNotFound) || errors.Is(last, versionlog.ErrCorrupt) {
			t.Errorf("%s: after %d commits: %v, want %v", statement, commits-1, last, versionlog.ErrNotFound)
		}
	}
}

// TestDeletedFrames: a store that is deleted leaves no frames.
func TestDeletedFrames(t *testing.T) {
	dir, l, id := newFramed(t, 9)
	if err := l.DeleteStore(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := frames(t, dir); got != "" {
		t.Errorf("the frames %s are left", got)
	}
}

// TestRecordsNotForFrames: a record that has a line break, or is that of another commit,
// stays where it is.
func TestRecordsNotForFrames(t *testing.T) {
	dir, l, id := newFramed(t, 0)
	for i := range 9 {
		put(t, l, id, fmt.Sprint("/", i), "x")
	}
	change(t, dir, `UPDATE commits SET record = CAST(replace(CAST(record AS TEXT), '{"format"', '{' || char(10) || '"format"') AS BLOB) WHERE seq = 2`,
		`UPDATE commits SET record = (SELECT record FROM commits WHERE seq = 5) WHERE seq = 6`)
	packAll(t, l)
	if got, want := frames(t, dir), "1-1 3-4 5-5 7-8"; got != want {
		t.Errorf("frames are %s, want %s", got, want)
	}
	if found, err := commitsOf(t, l, id, 0); len(found) != 5 || !errors.Is(err, versionlog.ErrCorrupt) {
		t.Errorf("%d commits, then %v; want those before the sixth", len(found), err)
	}
}

// TestSlicesAreShort: a slice has no more contents and records than writers may wait for.
func TestSlicesAreShort(t *testing.T) {
	_, l, id := newFramed(t, 0)
	for i := range 3 * sliceContents {
		commitContent(t, l, id, "/a", fmt.Sprint(strings.Repeat("x", leastPacked), i))
	}
	planned, err := plan(t.Context(), l.db, 1, nil, cursor{})
	if err != nil {
		t.Fatal(err)
	}
	if n := planned.frame.last - planned.frame.first + 1; n != int64(frameRecords) || len(planned.gone) != sliceContents {
		t.Errorf("a slice has %d records and %d contents; want %d and %d", n, len(planned.gone), frameRecords, sliceContents)
	}
}

// TestFramesMakeRoom: records that go into frames leave pages that are free.
func TestFramesMakeRoom(t *testing.T) {
	withLongFrames(t)
	dir, l, id := newFramed(t, 0)
	for i := range 4 * frameRecords {
		put(t, l, id, "/a", fmt.Sprint(i))
	}
	l.writer.checkpoint(t.Context(), "TRUNCATE")
	before := dirSize(t, dir)
	packAll(t, l)
	if after := dirSize(t, dir); after >= before {
		t.Errorf("%d commits take %d bytes in frames, and %d before", 4*frameRecords, after, before)
	}
}

// TestEmptyRecordInEarlierFormat: where there are no frames yet, an empty record is
// damaged as any other, and the log becomes one of this format.
func TestEmptyRecordInEarlierFormat(t *testing.T) {
	dir, l, id := newFramed(t, 1)
	closeOnce(t, l)
	known := read(t, filepath.Join(dir, tipsName))
	l = openTest(t, dir, nil)
	put(t, l, id, "/b", "x")
	closeOnce(t, l)
	if err := os.WriteFile(filepath.Join(dir, tipsName), known, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, column := range strings.Split((eventColumns + policyColumn)[2:], ", ") {
		change(t, dir, `ALTER TABLE stores DROP COLUMN `+column)
	}
	change(t, dir, `ALTER TABLE versions DROP COLUMN spelling`, `DROP TABLE packed`, `DROP TABLE packing`, `DROP TABLE packed_records`,
		`DROP TABLE files_left`, `DROP INDEX versions_content`, `PRAGMA user_version = 4`, `UPDATE commits SET record = x'' WHERE seq = 1`)
	for _, readOnly := range []bool{true, false} {
		l := openTest(t, dir, &Options{ReadOnly: readOnly})
		if found, err := commitsOf(t, l, id, 0); len(found) > 0 || !errors.Is(err, versionlog.ErrCorrupt) {
			t.Errorf("%d commits, then %v, want %v", len(found), err, versionlog.ErrCorrupt)
		}
		if found, err := commitsOf(t, l, id, 1); len(found) != 1 || err != nil {
			t.Errorf("%d commits behind the damaged one, %v", len(found), err)
		}
		if err := l.Check(t.Context(), id, func(p Problem) { t.Errorf("%v", p) }); err != nil {
			t.Error(err)
		}
	}
}
