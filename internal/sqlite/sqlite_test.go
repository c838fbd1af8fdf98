package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"mneme/internal/safepath"
)

// newDB returns a database with a table of texts and a connection to it.
func newDB(t *testing.T) (*DB, *Conn) {
	t.Helper()
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	c := connect(t, db)
	if err := c.Script(`PRAGMA journal_mode = WAL; CREATE TABLE texts (text TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return db, c
}

func open(t *testing.T, path string) *DB {
	t.Helper()
	db := New(path, false, 2)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func connect(t *testing.T, db *DB) *Conn {
	t.Helper()
	c, err := db.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// add commits texts in one transaction.
func add(c *Conn, texts ...string) error {
	err := c.Begin()
	for _, text := range texts {
		if err == nil {
			err = c.Run(`INSERT INTO texts VALUES (?)`, text)
		}
	}
	if err == nil {
		err = c.Commit()
	}
	if err != nil {
		return errors.Join(err, c.Rollback())
	}
	return nil
}

func texts(t *testing.T, c *Conn) (found []string) {
	t.Helper()
	err := c.Each(`SELECT text FROM texts ORDER BY rowid`, func(row *Row) error {
		found = append(found, row.ColumnText(0))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// watched is a write-ahead log that notes what is done to it, and may fail.
type watched struct {
	vfs.File
	calls []string
	full  error // of the next write
	fail  error // of the next sync
}

func (w *watched) WriteAt(p []byte, off int64) (int, error) {
	w.calls = append(w.calls, "write")
	if err := w.full; err != nil {
		w.full = nil
		return 0, &os.PathError{Op: "write", Err: err}
	}
	return w.File.WriteAt(p, off)
}

func (w *watched) Sync(flags vfs.SyncFlag) error {
	w.calls = append(w.calls, "sync")
	if err := w.fail; err != nil {
		w.fail = nil
		return err
	}
	return w.File.Sync(flags)
}

func watch(c *Conn) *watched {
	w := &watched{File: c.main.ahead.File}
	c.main.ahead.File = w
	return w
}

// TestCommitIsOneWrite: a transaction goes into the write-ahead log with one write,
// and is synced after that.
func TestCommitIsOneWrite(t *testing.T) {
	_, c := newDB(t)
	w := watch(c)
	if err := add(c, "a", strings.Repeat("b", 100_000)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"write", "sync"}; !slices.Equal(w.calls, want) {
		t.Errorf("a commit does %v, want %v", w.calls, want)
	}
	if err := add(c, strings.Repeat("c", 400_000)); err != nil {
		t.Fatal(err)
	}
	if n := cap(c.main.ahead.gathered); n > maxGathered/4 {
		t.Errorf("%d bytes are kept for the next commit", n)
	}
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(`INSERT INTO texts VALUES (?)`, strings.Repeat("d", 3*maxGathered)); err != nil {
		t.Fatal(err)
	}
	if n := len(c.main.ahead.gathered); n > 0 { // SQLite writes what does not fit into its cache
		t.Errorf("%d bytes are gathered before the commit", n)
	}
	if err := c.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// TestOthersSeeCommit: what is committed is there for other connections, and after
// all of them are closed.
func TestOthersSeeCommit(t *testing.T) {
	db, c := newDB(t)
	other := connect(t, db)
	var want []string
	for i := range 50 {
		from := c
		if i%2 == 1 {
			from = other
		}
		text := strings.Repeat("x", i*1000)
		if i%10 == 0 {
			text = strings.Repeat("y", 3*maxGathered+i)
		}
		if err := add(from, text); err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
		for _, reader := range []*Conn{c, other} {
			if got := texts(t, reader); !slices.Equal(got, want) {
				t.Fatalf("after %d commits a connection sees %d", len(want), len(got))
			}
		}
	}
}

// TestFailedCommit: of a commit that fails nothing comes later into the log, where
// another connection has written meanwhile.
func TestFailedCommit(t *testing.T) {
	db, c := newDB(t)
	other := connect(t, db)
	w := watch(c)
	w.fail = syscall.EIO
	if err := add(c, "lost", strings.Repeat("l", 50_000)); err == nil {
		t.Fatal("a commit whose sync fails succeeds")
	}
	if n := len(c.main.ahead.gathered); n > 0 {
		t.Errorf("%d bytes stay gathered", n)
	}
	if err := add(other, "first"); err != nil {
		t.Fatal(err)
	}
	if err := add(c, "second"); err != nil {
		t.Fatal(err)
	}
	for _, reader := range []*Conn{c, other, connect(t, db)} {
		if got, want := texts(t, reader), []string{"first", "second"}; !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	intact(t, c)
}

// TestFullDisk: a commit for which there is no room, or no right to write any longer, says so,
// and leaves nothing.
func TestFullDisk(t *testing.T) {
	_, c := newDB(t)
	w := watch(c)
	for errno, want := range map[syscall.Errno]error{
		syscall.ENOSPC: sqlite3.FULL, syscall.EDQUOT: sqlite3.FULL, syscall.EROFS: sqlite3.READONLY_DIRECTORY,
	} {
		w.full = errno
		if err := add(c, "lost"); !errors.Is(err, want) {
			t.Errorf("%v: the commit ends with %v", errno, err)
		}
	}
	if err := add(c, "kept"); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, c); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("there are %q", got)
	}
	intact(t, c)
}

// intact lets SQLite check the database.
func intact(t *testing.T, c *Conn) {
	t.Helper()
	err := c.Each(`PRAGMA integrity_check`, func(row *Row) error {
		if s := row.ColumnText(0); s != "ok" {
			t.Error(s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDropped: what was gathered for a commit that is given up is not written.
func TestDropped(t *testing.T) {
	_, c := newDB(t)
	w, a := watch(c), c.main.ahead
	a.gathering = true
	if _, err := a.WriteAt([]byte("given up"), 1<<20); err != nil {
		t.Fatal(err)
	}
	a.gathering = false
	a.drop()
	if err := a.Sync(0); err != nil || slices.Contains(w.calls, "write") {
		t.Errorf("it is written: %v, %v", w.calls, err)
	}
}

// TestNothingStaysGathered: a commit that is refused before anything is written
// takes along what may be gathered.
func TestNothingStaysGathered(t *testing.T) {
	_, c := newDB(t)
	err := c.Script(`PRAGMA foreign_keys = ON; CREATE TABLE parents (id INTEGER PRIMARY KEY);
		CREATE TABLE children (parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
		BEGIN IMMEDIATE; INSERT INTO children VALUES (1)`)
	if err != nil {
		t.Fatal(err)
	}
	a := c.main.ahead
	a.gathered, a.at = []byte("of a commit that was given up"), 1<<20
	if err := c.Commit(); err == nil {
		t.Fatal("a child without a parent is committed")
	}
	if len(a.gathered) > 0 {
		t.Errorf("%q stays gathered", a.gathered)
	}
	if err := c.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// TestGatheredBounds: the gathered bytes stay within their bound, and none are left after a
// failed write.
func TestGatheredBounds(t *testing.T) {
	_, c := newDB(t)
	w, a := watch(c), c.main.ahead
	a.gathering = true
	defer func() { a.gathering = false }()
	piece := make([]byte, 100_000)
	for i := range 50 {
		if _, err := a.WriteAt(piece, 1<<20+int64(i*len(piece))); err != nil {
			t.Fatal(err)
		}
		if n := len(a.gathered); n > maxGathered {
			t.Fatalf("%d bytes are gathered", n)
		}
	}
	w.full = syscall.EIO
	if err := a.Sync(0); !errors.Is(err, syscall.EIO) {
		t.Errorf("the sync ends with %v", err)
	}
	if n := len(a.gathered); n > 0 {
		t.Errorf("%d bytes stay gathered", n)
	}
}

// TestGatheredIsRead: a read finds what is gathered.
func TestGatheredIsRead(t *testing.T) {
	_, c := newDB(t)
	a := c.main.ahead
	a.gathering = true
	defer func() { a.gathering = false }()
	for i, text := range []string{"ab", "cd", "ef"} {
		if _, err := a.WriteAt([]byte(text), 1<<20+int64(2*i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.WriteAt([]byte("X"), 1<<20+1); err != nil { // elsewhere
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if _, err := a.ReadAt(got, 1<<20); err != nil || string(got) != "aXcdef" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestPrivateFiles(t *testing.T) {
	_, c := newDB(t)
	if err := add(c, "a"); err != nil {
		t.Fatal(err)
	}
	path := c.lib.Filename("main").String()
	for _, suffix := range []string{"", "-wal", indexSuffix} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", info.Name(), info.Mode())
		}
	}
}

// Links are not opened, nor as root files that others may write to.
func TestOpensOwnFilesOnly(t *testing.T) {
	for _, suffix := range []string{"", WriteAheadSuffix, indexSuffix, "-journal"} {
		t.Run("database"+suffix, func(t *testing.T) {
			db, c := newDB(t)
			if err := add(c, "a"); err != nil {
				t.Fatal(err)
			}
			name := db.path + suffix
			aside := filepath.Join(t.TempDir(), "aside")
			if err := os.Rename(name, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.Symlink(aside, name); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Open(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("a link: %v", err)
			}
			if os.Geteuid() != 0 {
				return
			}
			if err := errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600), os.Chown(name, 1234, 1234)); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Open(); !errors.Is(err, safepath.ErrUntrusted) || !strings.Contains(err.Error(), "user 1234") {
				t.Errorf("another user's file: %v", err)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	_, c := newDB(t)
	var got []string
	err := c.Each(`SELECT typeof(column1) FROM (VALUES (?), (?), (?), (?), (?), (?), (?))`, func(row *Row) error {
		got = append(got, row.ColumnText(0))
		return nil
	}, 1, int64(2), "three", []byte("four"), []byte{}, []byte(nil), nil)
	want := []string{"integer", "integer", "text", "blob", "blob", "null", "null"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("types %v, %v; want %v", got, err, want)
	}
	if err := c.Run(`INSERT INTO texts VALUES (?)`, 1.5); err == nil || !strings.Contains(err.Error(), "float64") {
		t.Errorf("a float: %v", err)
	}
}

// TestWithWaits: With has no more connections than it may, and waits for one as
// long as its context allows.
func TestWithWaits(t *testing.T) {
	db, _ := newDB(t)
	err := db.With(t.Context(), func(*Conn) error {
		return db.With(t.Context(), func(*Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			return db.With(ctx, func(*Conn) error { return nil })
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third connection of two: %v", err)
	}
	if err := db.With(t.Context(), func(*Conn) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestWithLeavesNoTransaction: a caller gets a connection without a transaction.
func TestWithLeavesNoTransaction(t *testing.T) {
	db, _ := newDB(t)
	for range 3 {
		if err := db.With(t.Context(), (*Conn).Begin); err != nil {
			t.Fatal(err)
		}
	}
}

// unwritable is a layer's files, of which none can be written.
type unwritable struct {
	vfs.VFS
	why error
}

func (u unwritable) OpenFilename(_ *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if flags&(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) != 0 {
		return nil, flags, &os.PathError{Op: "open", Err: u.why}
	}
	return &watched{}, flags, nil
}

// TestUnwritableLog: a write-ahead log that cannot be written is opened for
// reading, a database is not.
func TestUnwritableLog(t *testing.T) {
	t.Chdir(t.TempDir()) // where a database without a name has what it shares
	const toWrite = vfs.OPEN_READWRITE | vfs.OPEN_CREATE
	for _, why := range []syscall.Errno{syscall.EACCES, syscall.EROFS} {
		l := layer{unwritable{why: why}}
		if _, flags, err := l.OpenFilename(nil, vfs.OPEN_WAL|toWrite); err != nil || flags&vfs.OPEN_READONLY == 0 || flags&toWrite != 0 {
			t.Errorf("%v: a write-ahead log is opened with %x, %v", why, flags, err)
		}
		if _, _, err := l.OpenFilename(nil, vfs.OPEN_MAIN_DB|toWrite); !errors.Is(err, why) {
			t.Errorf("%v: a database is opened with %v", why, err)
		}
	}
	if _, _, err := (layer{unwritable{why: syscall.EMFILE}}).OpenFilename(nil, vfs.OPEN_WAL|toWrite); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without descriptors: %v", err)
	}
}

// TestReading: within Reading nothing changes.
func TestReading(t *testing.T) {
	db, c := newDB(t)
	reader := connect(t, db)
	err := reader.Reading(func() error {
		before := texts(t, reader)
		if err := add(c, "new"); err != nil {
			return err
		}
		if after := texts(t, reader); len(after) != len(before) {
			t.Errorf("%d texts, then %d", len(before), len(after))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := len(texts(t, reader)); n != 1 {
		t.Errorf("%d texts after it", n)
	}
}
