package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// hold starts a process that holds the log until its input ends.
func hold(t *testing.T, dir, storeID string) *process {
	t.Helper()
	p := start(t, "hold", dir, storeID)
	if line, err := p.out.ReadString('\n'); err != nil || line != "held\n" {
		t.Fatal(line, err)
	}
	return p
}

// TestBusy: a process that holds the log is waited for within ctx, and named
// when it does not let go.
func TestBusy(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	p := hold(t, dir, s.ID)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Commit(ctx, s.ID, putProposal("/a", "2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if _, err := l.Head(t.Context(), s.ID, "/a"); err != nil { // readers go on
		t.Error(err)
	}
	defer func(saved time.Duration) { busyTimeout = saved }(busyTimeout)
	busyTimeout = 50 * time.Millisecond
	_, err := l.Commit(t.Context(), s.ID, putProposal("/a", "2"))
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "another process holds the log") {
		t.Errorf("error is %v", err)
	}
	p.in.Close()
	p.wait(t)
	if c := put(t, l, s.ID, "/a", "2"); c.Seq != 2 {
		t.Errorf("sequence %d after two commits that failed", c.Seq)
	}
}

// TestBusyForAll: those who wait behind one another for a process that holds the
// log do not wait longer than one would.
func TestBusyForAll(t *testing.T) {
	defer func(saved time.Duration) { busyTimeout = saved }(busyTimeout)
	busyTimeout = 500 * time.Millisecond
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	p := hold(t, dir, s.ID)
	const writers = 40
	ctx, cancel := context.WithTimeout(t.Context(), writers/2*busyTimeout)
	defer cancel()
	failed := make(chan error)
	for i := range writers {
		go func() {
			_, err := l.Commit(ctx, s.ID, putProposal(fmt.Sprint("/", i), "1"))
			failed <- err
		}()
	}
	for range writers {
		if err := <-failed; !errors.Is(err, ErrBusy) {
			t.Errorf("error is %v", err)
		}
	}
	p.in.Close()
	p.wait(t)
	put(t, l, s.ID, "/a", "2")
}

// TestWaitsForTurn: writers of one Log wait for one another within ctx, too.
func TestWaitsForTurn(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := l.writer.transaction(t.Context(), func(context.Context) error {
		_, err := l.Commit(ctx, s.ID, putProposal("/a", "2"))
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	put(t, l, s.ID, "/a", "2")
}

// TestEndedWithin: a context that ends during a transaction undoes it.
func TestEndedWithin(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := l.writer.transaction(ctx, func(inner context.Context) error {
		row, err := queryOne(inner, l.writer, storeByID, scanStore, s.ID)
		if err != nil {
			return err
		}
		_, _, err = l.propose(inner, &row, putProposal("/a", "2"), nil)
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if c := put(t, l, s.ID, "/a", "3"); c.Seq != 2 {
		t.Errorf("sequence %d, the cancelled commit is in", c.Seq)
	}
}

func TestDiskFull(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	limit := func(pages int) {
		if err := l.writer.conn.Script(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // no more than there are
	p := putProposal("/"+strings.Repeat("long", 10_000), "1")
	if _, err := l.Commit(t.Context(), s.ID, p); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error is %v, want ENOSPC", err)
	}
	if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Seq != 1 {
		t.Errorf("tip is %+v, %v", tip, err)
	}
	limit(1 << 30)
	if c, err := l.Commit(t.Context(), s.ID, p); err != nil || c.Seq != 2 {
		t.Errorf("with space again: %v, %v", c, err)
	}
}

func TestCorruptPages(t *testing.T) {
	dir, s := newLog(t)
	path := filepath.Join(dir, DatabaseName)
	roots := texts(t, raw(t, dir), `SELECT rootpage FROM sqlite_schema WHERE rootpage > 0`)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots { // all but those of the definitions, without which nothing is opened
		page, err := strconv.Atoi(root)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4096 {
			data[(page-1)*4096+i] = 0xee
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, dir, nil)
	if _, err := l.Head(t.Context(), s.ID, "/a"); !errors.Is(err, versionlog.ErrCorrupt) {
		t.Errorf("Head: %v", err)
	}
	if _, err := l.Commit(t.Context(), s.ID, putProposal("/a", "2")); !errors.Is(err, versionlog.ErrCorrupt) {
		t.Errorf("Commit: %v", err)
	}
}

func TestCorruptRecords(t *testing.T) {
	for name, statement := range map[string]string{
		"record": `UPDATE commits SET record = CAST(replace(CAST(record AS TEXT), 'created', 'renamed') AS BLOB) WHERE seq = 2`,
		"gap":    `DELETE FROM commits WHERE seq = 2`,
		"swap":   `UPDATE commits SET record = (SELECT record FROM commits WHERE seq = 1) WHERE seq = 2`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := newLog(t)
			l := openTest(t, dir, nil)
			put(t, l, s.ID, "/b", "1")
			put(t, l, s.ID, "/c", "1")
			change(t, dir, statement)
			walk := func(after uint64) (seqs []uint64, last error) {
				for c, err := range l.Commits(t.Context(), s.ID, after) {
					if last = err; err == nil {
						seqs = append(seqs, c.Seq)
					}
				}
				return seqs, last
			}
			seqs, err := walk(0)
			if !errors.Is(err, versionlog.ErrCorrupt) || !slices.Equal(seqs, []uint64{1}) {
				t.Errorf("commits %v, then %v; want the one before the bad one", seqs, err)
			}
			if seqs, err = walk(2); err != nil || !slices.Equal(seqs, []uint64{3}) {
				t.Errorf("behind the bad one: commits %v, %v", seqs, err)
			}
		})
	}
}

// TestSlowWalkAndCheckpoint: a consumer that dawdles in the middle of a page
// does not keep the write-ahead log from being emptied.
func TestSlowWalkAndCheckpoint(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	put(t, l, s.ID, "/b", "1")
	for range l.Heads(t.Context(), s.ID, "/", "") {
		put(t, l, s.ID, "/a", fmt.Sprint(time.Now()))
		err := l.writer.conn.Each(`PRAGMA wal_checkpoint(TRUNCATE)`, func(row *sqlite.Row) error {
			if busy := row.ColumnInt(0); busy != 0 {
				t.Errorf("checkpoint: busy %d, %d of %d frames", busy, row.ColumnInt(2), row.ColumnInt(1))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestDeleteLeavesNothing: no row of a deleted store stays behind.
func TestDeleteLeavesNothing(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	if _, err := l.Commit(t.Context(), s.ID, withContent("/b", "bytes", versionlog.ExpectAny())); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"stores", "commits", "versions", "paths", "blobs"} {
		if rows := texts(t, raw(t, dir), "SELECT count(*) FROM "+table); !slices.Equal(rows, []string{"0"}) {
			t.Errorf("%v rows in %s", rows, table)
		}
	}
}

// TestDeletedBytesAreGone: what a deleted store held cannot be read from the
// files any more.
func TestDeletedBytesAreGone(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	const secret = "the launch code is "
	for i := range 20 {
		p := withContent(fmt.Sprintf("/%s%d", secret, i), strings.Repeat(secret, 1+i*500), versionlog.ExpectAny())
		if _, err := l.Commit(t.Context(), s.ID, p); err != nil {
			t.Fatal(err)
		}
	}
	found := func() (found int) {
		t.Helper()
		for _, name := range []string{DatabaseName, DatabaseName + "-wal"} {
			data, err := os.ReadFile(l.path(name))
			if err != nil {
				t.Fatal(err)
			}
			found += strings.Count(string(data), secret)
		}
		return found
	}
	if found() == 0 {
		t.Fatal("the test does not find what is there")
	}
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if n := found(); n > 0 {
		t.Errorf("it is still there %d times", n)
	}
}

// TestWriteAheadShrinks: a huge commit does not leave its size on disk for
// ever.
func TestWriteAheadShrinks(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	huge := &versionlog.Proposal{Key: versionlog.NewKey()}
	for i := range 500 {
		p := withContent(fmt.Sprintf("/%d", i), strings.Repeat(fmt.Sprintf("%06d\n", i), 14_000), versionlog.ExpectAny())
		huge.Changes = append(huge.Changes, p.Changes...)
	}
	if _, err := l.Commit(t.Context(), s.ID, huge); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(l.path(DatabaseName + "-wal"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if n := size(); n <= sqlite.KeptWriteAhead {
		t.Fatalf("the commit took %d bytes, the test tests nothing", n)
	}
	put(t, l, s.ID, "/small", "1")
	if n := size(); n > sqlite.KeptWriteAhead {
		t.Errorf("the write-ahead log still has %d bytes", n)
	}
}
