package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func stampOf(t testing.TB, db *DB) Stamp {
	t.Helper()
	s, ok := db.Stamp()
	if !ok {
		t.Fatal("there is no stamp")
	}
	return s
}

// use makes With of a database open a connection.
func use(t testing.TB, db *DB) {
	t.Helper()
	if err := db.With(t.Context(), func(c *Conn) error { return c.Run(`SELECT count(*) FROM texts`) }); err != nil {
		t.Fatal(err)
	}
}

func TestStamp(t *testing.T) {
	db, c := newDB(t)
	if _, ok := db.Stamp(); ok {
		t.Error("there is a stamp before the first connection of With")
	}
	use(t, db)
	first := stampOf(t, db)
	use(t, db)
	if stampOf(t, db) != first {
		t.Error("reading changes it")
	}
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(`INSERT INTO texts VALUES ('undone')`); err != nil {
		t.Fatal(err)
	}
	if stampOf(t, db) != first {
		t.Error("a transaction that is not committed changes it")
	}
	if err := c.Rollback(); err != nil {
		t.Fatal(err)
	}
	if stampOf(t, db) != first {
		t.Error("a transaction that is undone changes it")
	}
	if err := add(c, "a"); err != nil {
		t.Fatal(err)
	}
	second := stampOf(t, db)
	if second == first || !second.Follows(&first) || first.Follows(&second) {
		t.Errorf("after a commit it is %x, before %x", second, first)
	}
	if err := add(c, "b"); err != nil {
		t.Fatal(err)
	}
	if third := stampOf(t, db); third.Follows(&first) || !third.Follows(&second) {
		t.Errorf("after two commits it is %x, before %x", third, first)
	}
}

// TestHalfWrittenStamp: a header that is being written is no stamp.
func TestHalfWrittenStamp(t *testing.T) {
	index, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	db := New("", false, 1)
	db.index.Store(index)
	defer db.Close()
	header := make([]byte, 96)
	for _, test := range []struct {
		change func()
		ok     bool
	}{
		{func() {}, false}, // it is not filled in
		{func() { header[12], header[48+12] = 1, 1 }, true},
		{func() { header[48+16] = 7 }, false}, // the second copy comes first
		{func() { header[16] = 7 }, true},
	} {
		test.change()
		if _, err := index.WriteAt(header, 0); err != nil {
			t.Fatal(err)
		}
		if s, ok := db.Stamp(); ok != test.ok {
			t.Errorf("of header %x, stamp %x: %v, want %v", header, s, ok, test.ok)
		}
	}
	if err := index.Truncate(50); err != nil {
		t.Fatal(err)
	}
	if s, ok := db.Stamp(); ok {
		t.Errorf("of half a header, stamp %x", s)
	}
}

// TestStampThroughLink: the index lies beside the database, also where a link leads
// to their directory.
func TestStampThroughLink(t *testing.T) {
	db, c := newDB(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(db.path), link); err != nil {
		t.Fatal(err)
	}
	linked := open(t, filepath.Join(link, filepath.Base(db.path)))
	use(t, linked)
	before := stampOf(t, linked)
	if err := add(c, "a"); err != nil {
		t.Fatal(err)
	}
	if after := stampOf(t, linked); !after.Follows(&before) {
		t.Errorf("after a commit it is %x, before %x", after, before)
	}
}

// TestStampTellsStates: whatever two processes' databases commit, undo and check
// point, a stamp never stands for two states.
func TestStampTellsStates(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		db, c := newDB(t)
		other := open(t, db.path)
		writers := []*Conn{c, connect(t, other)}
		use(t, db)
		use(t, other)
		states := map[Stamp]int{}
		commits := 0
		for i := range rapid.IntRange(1, 40).Draw(r, "steps") {
			w := rapid.SampledFrom(writers).Draw(r, "writer")
			var err error
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				err = w.Script(`PRAGMA wal_checkpoint(TRUNCATE)`)
			case 1:
				err = w.Script(`PRAGMA wal_checkpoint(PASSIVE)`)
			case 2:
				err = w.Script(`BEGIN IMMEDIATE; INSERT INTO texts VALUES (randomblob(100000) || ''); ROLLBACK`)
			default:
				before := stampOf(t, db)
				err = add(w, fmt.Sprint(i))
				commits++
				if after := stampOf(t, other); !after.Follows(&before) {
					t.Errorf("%x does not follow %x", after, before)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			s := stampOf(t, db)
			if s != stampOf(t, other) {
				t.Fatal("two databases on the same file have different stamps")
			}
			if had, ok := states[s]; ok && had != commits {
				t.Fatalf("%x stands for %d and for %d commits", s, had, commits)
			}
			states[s] = commits
		}
	})
}
