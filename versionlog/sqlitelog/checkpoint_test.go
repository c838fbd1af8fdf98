package sqlitelog

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// TestCommitsCarryNothingOver: while one log commits much, the write-ahead log is carried over beside
// the commits, and begins at its start again.
func TestCommitsCarryNothingOver(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	know(t, l, s)
	frames := func() uint32 { return l.stores.moment().frames() }
	text := strings.Repeat("x", 60<<10)
	for i := 0; frames() < carriedFrom; i++ {
		put(t, l, s.ID, "/a", text+string(rune('a'+i%26)))
	}
	for deadline := time.Now().Add(30 * time.Second); frames() >= carriedFrom; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the write-ahead log has %d frames", frames())
		}
		put(t, l, s.ID, "/b", text+time.Now().String())
	}
	info, err := os.Stat(l.path(DatabaseName + sqlite.WriteAheadSuffix))
	if err != nil || info.Size() >= carriedMost*4096 {
		t.Errorf("the write-ahead log has %d bytes, %v", info.Size(), err)
	}
}

// TestCutAfterReaders: a write-ahead log that cannot be cut at rest since a process reads from it
// is cut when that has ended, without another commit.
func TestCutAfterReaders(t *testing.T) {
	dir := t.TempDir()
	l, reader := openTest(t, dir, nil), openTest(t, dir, nil)
	s := addStore(t, l, "s")
	pacedAt(t, l, restless)
	length := func() int64 {
		info, err := os.Stat(l.path(DatabaseName + sqlite.WriteAheadSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	err := reader.db.With(t.Context(), func(conn *sqlite.Conn) error {
		return conn.Reading(func() error {
			if err := conn.Each(`SELECT count(*) FROM versions`, func(*sqlite.Row) error { return nil }); err != nil {
				return err
			}
			for i := 0; length() <= keptAhead; i++ {
				put(t, l, s.ID, "/a", strings.Repeat(string(rune('a'+i%26)), 60<<10))
			}
			time.Sleep(100 * time.Millisecond) // it tries in vain
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a short write-ahead log", func() bool { return length() <= keptAhead })
}

// TestWriteAheadIsCut: after a burst of commits so much of the write-ahead log stays that the next
// commits need not make the file longer.
func TestWriteAheadIsCut(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, &Options{Still: true})
	s := addStore(t, l, "s")
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(l.path(DatabaseName + sqlite.WriteAheadSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if err := l.writer.conn.Script(`PRAGMA wal_autocheckpoint = 0`); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 500<<10)
	for i := 0; size() <= keptAhead; i++ {
		if _, err := l.Commit(t.Context(), s.ID, withContent("/a", text+strconv.Itoa(i), versionlog.ExpectAny())); err != nil {
			t.Fatal(err)
		}
	}
	last, err := l.Tip(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	note := func(format int) {
		t.Helper()
		if err := l.writer.conn.Script(fmt.Sprintf(`PRAGMA user_version = %d`, format)); err != nil {
			t.Fatal(err)
		}
	}
	note(schemaFormat + 1)
	if done, err := l.writer.cut(t.Context()); !done {
		t.Fatal(err)
	}
	if format := texts(t, raw(t, dir), `PRAGMA user_version`); !slices.Equal(format, []string{fmt.Sprint(schemaFormat + 1)}) {
		t.Errorf("the format is %v, and a newer mneme has noted %d", format, schemaFormat+1)
	}
	note(schemaFormat)
	if n := size(); n != keptAhead {
		t.Errorf("%d bytes are kept, want %d", n, keptAhead)
	}
	for range 20 {
		put(t, l, s.ID, "/b", versionlog.NewKey())
	}
	if n := size(); n != keptAhead {
		t.Errorf("after the next commits it has %d bytes", n)
	}
	var kept int
	err = l.writer.conn.Each(`PRAGMA journal_size_limit`, func(row *sqlite.Row) error {
		kept = row.ColumnInt(0)
		return nil
	})
	if err != nil || kept != sqlite.KeptWriteAhead {
		t.Errorf("transactions keep %d bytes, %v", kept, err)
	}
	wantClean(t, dir, s, last.Seq+20)
}

// TestModifyingLeavesIndex: a new version of a memory does not write to the index of live paths.
func TestModifyingLeavesIndex(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	know(t, l, s)
	pages := func(content string) uint32 {
		before := l.stores.moment()
		put(t, l, s.ID, "/b", content)
		now := l.stores.moment()
		return now.frames() - before.frames()
	}
	created := pages("1")
	if modified := pages("2"); modified != created-1 {
		t.Errorf("it writes %d pages, where the first version wrote %d", modified, created)
	}
}
