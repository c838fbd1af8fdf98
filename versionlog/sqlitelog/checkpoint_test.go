package sqlitelog

import (
	"os"
	"strings"
	"testing"
	"time"

	"mneme/internal/sqlite"
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

// TestCutAfterReaders: a write-ahead log that cannot be cut at rest since somebody reads from it is
// cut when that has ended, without another commit.
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
