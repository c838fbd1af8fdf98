package sqlitelog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCheckDatabaseFinds changes the definitions in a database, and gives rows to
// stores that there are not.
func TestCheckDatabaseFinds(t *testing.T) {
	database, storeID := newCheckable(t)
	foreign := fmt.Sprintf("it is none of schema format %d", schemaFormat)
	other := fmt.Sprintf("it is not defined as in schema format %d", schemaFormat)
	for _, test := range []struct{ statement, want string }{
		{`CREATE TRIGGER spy AFTER INSERT ON commits BEGIN SELECT 1; END`, `trigger "spy": ` + foreign},
		{`CREATE VIEW mine AS SELECT * FROM commits`, `view "mine": ` + foreign},
		{`CREATE TABLE extra (x)`, `table "extra": ` + foreign},
		{`CREATE INDEX extra ON commits (time)`, `index "extra": ` + foreign},
		{`ANALYZE`, `table "sqlite_stat1": ` + foreign},
		{`ALTER TABLE commits ADD COLUMN extra TEXT`, "table commits: " + other},
		{`DROP INDEX versions_memory`, "index versions_memory: it is missing"},
		{`DROP INDEX versions_memory; CREATE INDEX versions_memory ON versions (store, seq)`, "index versions_memory: " + other},
		{`DROP INDEX paths_live; CREATE INDEX paths_live ON paths (store, path) WHERE live = 0`, "index paths_live: " + other},
		{`UPDATE sqlite_sequence SET seq = 1; DELETE FROM stores WHERE num = 2`, "table commits: rows of a store that never was, number 2: 1"},
		{`DELETE FROM stores WHERE num = 2`, "table commits: rows of a store that was deleted, number 2: 1"},
		{`UPDATE commits SET store = 0 WHERE store = 2`, "table commits: rows of a store that never was, number 0: 1"},
		{`UPDATE versions SET store = 7 WHERE store = 2`, "table versions: rows of a store that never was, number 7: 1"},
		{`UPDATE paths SET store = -7 WHERE store = 2`, "table paths: rows of a store that never was, number -7: 1"},
		{`UPDATE blobs SET store = 7 WHERE store = 2`, "table blobs: rows of a store that never was, number 7: 1"},
		{`UPDATE blobs SET sha256 = x'00' WHERE store = 1`, "table blobs: rows with a key that is no SHA-256: 1"},
		{`INSERT INTO blobs VALUES (1, zeroblob(32), x'00')`, "blob 0000000000000000000000000000000000000000000000000000000000000000: the bytes are damaged; no version needs them"},
		{`UPDATE versions SET sha256 = x'00' WHERE store = 1 AND seq = 9 AND op = 'deleted'`, "row versions 9: sha256: not what the record says"},
	} {
		found := checked(t, database, storeID, test.statement)
		if !slices.Contains(found, test.want) {
			t.Errorf("%s: %q, want %q", test.statement, found, test.want)
		}
	}
}

// TestCheckDatabaseSaysWhatIsRight: the statement that makes what is missing is one
// that can be run as it stands.
func TestCheckDatabaseSaysWhatIsRight(t *testing.T) {
	for _, dropped := range []string{"versions_left", "paths_live"} {
		dir, _ := newLog(t)
		change(t, dir, `DROP INDEX `+dropped)
		var found []Problem
		check := func() {
			found = nil
			l := openTest(t, dir, &Options{ReadOnly: true})
			if err := l.CheckDatabase(t.Context(), func(p Problem) { found = append(found, p) }); err != nil {
				t.Fatal(err)
			}
			closeOnce(t, l)
		}
		if check(); len(found) != 1 {
			t.Fatalf("without %s: %+v", dropped, found)
		}
		_, statement, _ := strings.Cut(found[0].Do, "right is: ")
		change(t, dir, statement)
		check()
		if len(found) != 0 {
			t.Errorf("after %s: %+v", statement, found)
		}
	}
}

// TestCheckDatabaseOfEarlierFormat: a log of an earlier format is compared with that
// one while it is only read, and with the newest when it has been brought to it.
func TestCheckDatabaseOfEarlierFormat(t *testing.T) {
	for format := 1; format <= schemaFormat; format++ {
		dir := t.TempDir()
		change(t, dir, `PRAGMA journal_mode = WAL`)
		for _, schema := range schemas[:format] {
			change(t, dir, schema)
		}
		change(t, dir, fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, format))
		for _, readOnly := range []bool{true, false} {
			l := openTest(t, dir, &Options{ReadOnly: readOnly})
			if err := l.CheckDatabase(t.Context(), func(p Problem) { t.Errorf("format %d, read-only %v: %+v", format, readOnly, p) }); err != nil {
				t.Error(err)
			}
			closeOnce(t, l)
		}
	}
}

// TestCheckDatabaseFindsBlobIndex leaves a row of the table blobs out of the index by
// which it is found, and then the row, and not what the index has of it.
func TestCheckDatabaseFindsBlobIndex(t *testing.T) {
	database, storeID := newCheckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DatabaseName), database, 0o600); err != nil {
		t.Fatal(err)
	}
	const index = `sqlite_autoindex_blobs_1`
	root := texts(t, raw(t, dir), `SELECT rootpage FROM sqlite_schema WHERE name = '`+index+`'`)[0]
	table := texts(t, raw(t, dir), `SELECT sql FROM sqlite_schema WHERE name = 'blobs'`)[0]
	define := func(sql string) string { return `UPDATE sqlite_schema SET sql = '` + sql + `' WHERE name = 'blobs'` }
	hide := []string{`PRAGMA writable_schema = ON`, `DELETE FROM sqlite_schema WHERE name = '` + index + `'`,
		define(strings.NewReplacer("data   BLOB    NOT NULL,", "data BLOB NOT NULL", "PRIMARY KEY (store, sha256)", "").Replace(table))}
	show := []string{`PRAGMA writable_schema = ON`, define(table),
		`INSERT INTO sqlite_schema VALUES ('index', '` + index + `', 'blobs', ` + root + `, NULL)`, `PRAGMA wal_checkpoint(TRUNCATE)`}
	for _, test := range []struct{ statement, want string }{
		{`INSERT INTO blobs SELECT 3, sha256, data FROM blobs WHERE store = 2`, "table blobs: rows that are not in its index, so that nobody finds them: 1"},
		{`INSERT INTO blobs SELECT * FROM blobs WHERE store = 2`, "table blobs: rows that are not in its index, so that nobody finds them: 1"},
		{`UPDATE blobs SET sha256 = zeroblob(32) WHERE store = 2`, "table blobs: rows that are not in its index, so that nobody finds them: 1"},
		{`DELETE FROM blobs WHERE store = 2`, "table blobs: rows of its index that are not there: 1"},
	} {
		if err := os.WriteFile(filepath.Join(dir, DatabaseName), database, 0o600); err != nil {
			t.Fatal(err)
		}
		change(t, dir, hide...)
		change(t, dir, test.statement)
		change(t, dir, show...)
		found := checked(t, read(t, filepath.Join(dir, DatabaseName)), storeID)
		if !slices.Contains(found, test.want) {
			t.Errorf("%s: %q, want %q", test.statement, found, test.want)
		}
	}
}

// TestEveryTableOfStoresIsKnown: a deletion empties every table with rows of stores,
// and fsck looks for rows of stores that there are not in each.
func TestEveryTableOfStoresIsKnown(t *testing.T) {
	dir, _ := newLog(t)
	var known []string
	for _, table := range leftTables {
		known = append(known, table.name)
	}
	there := texts(t, raw(t, dir), `SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'store' ORDER BY t.name`)
	if slices.Sort(known); !slices.Equal(known, there) {
		t.Errorf("known are %q, tables with rows of stores are %q", known, there)
	}
}

// TestForeignTriggerDoesNotRun: a process that can write the database does not make one
// that commits to it act.
func TestForeignTriggerDoesNotRun(t *testing.T) {
	dir, s := newLog(t)
	change(t, dir, `CREATE TABLE stolen (x)`, `CREATE TRIGGER spy AFTER INSERT ON commits BEGIN INSERT INTO stolen VALUES (new.record); END`)
	l := openTest(t, dir, nil)
	put(t, l, s.ID, "/b", "2")
	if stolen := texts(t, raw(t, dir), `SELECT count(*) FROM stolen`); stolen[0] != "0" {
		t.Errorf("the trigger has run %s times", stolen[0])
	}
}
