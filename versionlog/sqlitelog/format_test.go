package sqlitelog

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// change runs SQL on the database in dir behind the log's back.
func change(t testing.TB, dir string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
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
	want, err := os.ReadFile("testdata/schema-v2.sql")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), schemaOf(t, dir)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	first, err := os.ReadFile("testdata/schema-v1.sql")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(want), string(first)) {
		t.Error("format 2 is not format 1 and a table more")
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var id, format int
	if err := db.QueryRow(`SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`).Scan(&id, &format); err != nil {
		t.Fatal(err)
	}
	if id != 0x6d6e656d || format != 2 {
		t.Errorf("application_id %#x, user_version %d", id, format)
	}
}

// schemaOf returns the statements that made the tables of a log.
func schemaOf(t *testing.T, dir string) string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var statements []string
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, statement+";\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(statements, "\n")
}

func TestNewerFormat(t *testing.T) {
	dir, _ := newLog(t)
	change(t, dir, `PRAGMA user_version = 3`)
	for _, readOnly := range []bool{false, true} {
		refused(t, dir, readOnly, versionlog.ErrFormat, dir, "format 3", "up to 2", "use a newer mneme")
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
	data, err := os.ReadFile(filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

func TestForeignFiles(t *testing.T) {
	for name, make := range map[string]func(dir string){
		"text": func(dir string) {
			text := strings.Repeat("these are notes, no database\n", 100)
			if err := os.WriteFile(filepath.Join(dir, databaseName), []byte(text), 0o600); err != nil {
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
			refused(t, dir, false, nil, dir, databaseName)
			refused(t, dir, true, nil, dir, databaseName)
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
		"ArchiveStore": l.ArchiveStore(ctx, s.ID, s.CreatedAt), "DeleteStore": l.DeleteStore(ctx, s.ID),
	} {
		if !errors.Is(err, versionlog.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := l.db.Exec(`DELETE FROM paths`); err == nil {
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
	for _, name := range []string{"", databaseName, databaseName + "-wal", databaseName + "-shm", changedName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	var journal string
	var synchronous int
	if err := l.writer.conn.QueryRowContext(t.Context(), `PRAGMA journal_mode`).Scan(&journal); err != nil || journal != "wal" {
		t.Errorf("journal mode %q, %v", journal, err)
	}
	if err := l.writer.conn.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&synchronous); err != nil || synchronous != 2 {
		t.Errorf("synchronous is %d, %v; want 2, FULL", synchronous, err)
	}
}

func TestOpenObeysContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, t.TempDir(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
