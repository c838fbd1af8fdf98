package sqlitelog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mneme/internal/sqlite"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"
)

// raw opens the database in dir behind the log's back.
func raw(t testing.TB, dir string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// change runs SQL on the database in dir behind the log's back.
func change(t testing.TB, dir string, statements ...string) {
	t.Helper()
	db := raw(t, dir)
	for _, statement := range statements {
		if err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// texts returns the first column of the rows that a query yields.
func texts(t testing.TB, db *sqlite3.Conn, query string) (found []string) {
	t.Helper()
	stmt, _, err := db.Prepare(query)
	if err != nil {
		t.Fatal(err)
	}
	for stmt.Step() {
		found = append(found, stmt.ColumnText(0))
	}
	if err := errors.Join(stmt.Err(), stmt.Close()); err != nil {
		t.Fatal(err)
	}
	return found
}

func newLog(t testing.TB) (dir string, s versionlog.Store) {
	t.Helper()
	dir = t.TempDir()
	l := openTest(t, dir, nil)
	s = addStore(t, l, "s")
	put(t, l, s.ID, "/a", "1")
	closeOnce(t, l)
	return dir, s
}

// TestSchemaGolden: what a fresh log consists of is what its format is. A
// change of it is a change of format.
func TestSchemaGolden(t *testing.T) {
	dir, _ := newLog(t)
	want, err := os.ReadFile("testdata/schema-v7.sql")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), schemaOf(t, dir)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	db := raw(t, dir)
	if id, format := texts(t, db, `PRAGMA application_id`), texts(t, db, `PRAGMA user_version`); !slices.Equal(id, []string{fmt.Sprint(0x6d6e656d)}) || !slices.Equal(format, []string{fmt.Sprint(schemaFormat)}) {
		t.Errorf("application_id %v, user_version %v", id, format)
	}
}

// TestEarlierSchemas: a log of each earlier format becomes one of this.
func TestEarlierSchemas(t *testing.T) {
	fresh, _ := newLog(t)
	want := schemaOf(t, fresh)
	for format := 1; format < schemaFormat; format++ {
		dir := t.TempDir()
		schema, err := os.ReadFile(fmt.Sprintf("testdata/schema-v%d.sql", format))
		if err != nil {
			t.Fatal(err)
		}
		change(t, dir, string(schema), fmt.Sprintf(`PRAGMA application_id = %d`, applicationID), fmt.Sprintf(`PRAGMA user_version = %d`, format))
		l := openTest(t, dir, nil)
		s := addStore(t, l, "s")
		put(t, l, s.ID, "/a", "1")
		if diff := cmp.Diff(want, schemaOf(t, dir)); diff != "" {
			t.Errorf("format %d became: want -, got +:\n%s", format, diff)
		}
	}
}

// schemaOf returns the statements that made the tables of a log.
func schemaOf(t *testing.T, dir string) string {
	t.Helper()
	statements := texts(t, raw(t, dir), `SELECT sql || ';' || char(10) FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid`)
	return strings.Join(statements, "\n")
}

func TestNewerFormat(t *testing.T) {
	dir, _ := newLog(t)
	change(t, dir, fmt.Sprintf(`PRAGMA user_version = %d`, schemaFormat+1))
	for _, readOnly := range []bool{false, true} {
		refused(t, dir, readOnly, versionlog.ErrFormat, dir, fmt.Sprint("format ", schemaFormat+1), fmt.Sprint("up to ", schemaFormat), "use a newer mneme")
	}
}

// refused makes sure that Open fails for the reason given and leaves the
// database as it is.
func refused(t *testing.T, dir string, readOnly bool, want error, texts ...string) {
	t.Helper()
	before := fileSum(t, dir)
	l, err := Open(t.Context(), dir, &Options{ReadOnly: readOnly})
	if err == nil {
		l.Close()
		t.Fatal("it was opened")
	}
	t.Log(err)
	if want != nil && !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	if fileSum(t, dir) != before {
		t.Error("the database was changed")
	}
}

func fileSum(t *testing.T, dir string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

func TestForeignFiles(t *testing.T) {
	for name, make := range map[string]func(dir string){
		"text": func(dir string) {
			text := strings.Repeat("these are notes, no database\n", 100)
			if err := os.WriteFile(filepath.Join(dir, DatabaseName), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"tables":         func(dir string) { change(t, dir, `CREATE TABLE t (x)`) },
		"application id": func(dir string) { change(t, dir, `PRAGMA application_id = 7`, `CREATE TABLE t (x)`) },
		"user version":   func(dir string) { change(t, dir, `PRAGMA user_version = 1`) },
		"write-ahead":    func(dir string) { change(t, dir, `PRAGMA journal_mode = WAL`, `CREATE TABLE t (x)`) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			make(dir)
			refused(t, dir, false, nil, dir, DatabaseName)
			refused(t, dir, true, nil, dir, DatabaseName)
		})
	}
}

func TestReadOnly(t *testing.T) {
	if _, err := Open(t.Context(), t.TempDir()+"/none", &Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening nothing: %v", err)
	}
	dir, s := newLog(t)
	w := openTest(t, dir, nil)
	l := openTest(t, dir, &Options{ReadOnly: true, Refresh: never})
	ctx := t.Context()
	_, commitErr := l.Commit(ctx, s.ID, putProposal("/a", "2"))
	for what, err := range map[string]error{
		"Commit": commitErr, "CreateStore": l.CreateStore(ctx, versionlog.Store{ID: "x", Slug: "x"}),
		"event": happen(ctx, l, s.ID, versionlog.StoreArchived()), "DeleteStore": l.DeleteStore(ctx, s.ID),
	} {
		if !errors.Is(err, versionlog.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := l.db.With(ctx, func(c *sqlite.Conn) error { return c.Run(`DELETE FROM paths`) })
	if err == nil {
		t.Error("the connection itself can write")
	}
	woken := make(chan error)
	go func() { woken <- l.Wait(ctx, s.ID, 1) }()
	c := put(t, w, s.ID, "/a", "2")
	if err := <-woken; err != nil {
		t.Error(err)
	}
	if head, err := l.Head(ctx, s.ID, "/a"); err != nil || head != c.Versions[0] {
		t.Errorf("head is %+v, %v", head, err)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "log ?#%")
	l := openTest(t, dir, nil)
	addStore(t, l, "s")
	for _, name := range []string{"", DatabaseName, DatabaseName + "-wal", DatabaseName + "-shm", changedName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} { // FULL
		var got string
		err := l.writer.conn.Each(`PRAGMA `+pragma, func(row *sqlite.Row) error {
			got = row.ColumnText(0)
			return nil
		})
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", pragma, got, err, want)
		}
	}
}

func TestOpenObeysContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, t.TempDir(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// planOf returns how SQLite runs a statement.
func planOf(t *testing.T, db *sqlite3.Conn, text string) (plan []string) {
	t.Helper()
	stmt, _, err := db.Prepare(`EXPLAIN QUERY PLAN ` + text)
	if err != nil {
		t.Fatal(err)
	}
	for stmt.Step() {
		plan = append(plan, stmt.ColumnText(3))
	}
	if err := errors.Join(stmt.Err(), stmt.Close()); err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestPathHistoryIsIndexed: what freed a path is found without reading the
// history of the store.
func TestPathHistoryIsIndexed(t *testing.T) {
	dir, _ := newLog(t)
	want := "SEARCH v USING INDEX versions_left (<expr>=? AND <expr>=? AND seq<?)"
	if plan := planOf(t, raw(t, dir), leftBefore); len(plan) != 2 || plan[0] != want {
		t.Errorf("the plan is %q, want %q first", plan, want)
	}
}

// TestPastIsIndexed: so is what lived at a path, whatever the commits were that brought
// it there.
func TestPastIsIndexed(t *testing.T) {
	dir, _ := newLog(t)
	db, then := raw(t, dir), headsThen(nil, 1, 1)
	for _, text := range []string{then.at, then.between(10)} {
		plan := planOf(t, db, text)
		for _, want := range []string{
			"SEARCH v USING INDEX versions_path (store=? AND path=? AND seq=?)",
			"SEARCH x USING COVERING INDEX versions_path (store=? AND path=? AND seq<?)",
			"SEARCH y USING INDEX versions_left (<expr>=? AND <expr>=? AND seq>? AND seq<?)",
		} {
			if !slices.Contains(plan, want) {
				t.Errorf("the plan is %q, want %q in it", plan, want)
			}
		}
	}
}
