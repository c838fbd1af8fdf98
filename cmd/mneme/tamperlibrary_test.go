package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mneme/backend"
	"mneme/memory"
	"mneme/versionlog"
)

// tamperedLibrary is an embedded library whose values and files are changed.
type tamperedLibrary struct {
	t        testing.TB
	dir      string
	database []byte // as it is when nothing is changed
	older    []byte // as it was earlier
	tables   []*tamperedTable
	files    []string // with contents
	file     string   // that was changed
	content  []byte   // of it
}

// tamperedTable is a table with its rows, and those that it had earlier.
type tamperedTable struct {
	name          string
	columns, keys []string
	rows, earlier [][]any
}

// newTamperedLibrary makes two stores with everything that the tables and directories of
// an embedded library hold: contents that are whole, packed and in files, records that
// are packed and not, events, directories, renames and removals.
func newTamperedLibrary(t testing.TB) *tamperedLibrary {
	t.Helper()
	l := &tamperedLibrary{t: t, dir: filepath.Join(t.TempDir(), "library")}
	l.fill(70)
	earlier := l.read()
	var err error
	if l.older, err = os.ReadFile(l.path()); err != nil {
		t.Fatal(err)
	}
	l.fill(10)
	l.tables = l.read()
	for i, table := range l.tables {
		table.earlier = earlier[i].rows
	}
	if l.database, err = os.ReadFile(l.path()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(l.dir, "stores"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			l.files = append(l.files, path)
		}
		return err
	})
	if err != nil || len(l.files) < 2 {
		t.Fatalf("files with contents: %q, %v", l.files, err)
	}
	return l
}

func (l *tamperedLibrary) url() string  { return "file://" + l.dir }
func (l *tamperedLibrary) path() string { return filepath.Join(l.dir, "log.db") }

// fill makes the stores, or goes on with them, and packs.
func (l *tamperedLibrary) fill(commits int) {
	l.t.Helper()
	must := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	ctx := l.t.Context()
	author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"}, Session: "sesn_1"}
	for _, slug := range []string{"notes", "other"} {
		if slug == "other" {
			commits = 3
		}
		lib, err := backend.Open(ctx, l.url(), &backend.Options{Create: true})
		must(err)
		info, err := lib.FindStore(ctx, slug)
		if err != nil {
			info, err = lib.CreateStore(ctx, slug, &memory.StoreOptions{Actor: author.Actor, Description: "of " + slug, MaxMemoryBytes: 1 << 20, Metadata: map[string]string{"k": slug}})
			must(err)
		}
		st, err := lib.Open(ctx, info.ID, author)
		must(err)
		tip, err := st.Tip(ctx)
		must(err)
		for i := range commits {
			n := int(tip.Seq) + i + 1
			text := fmt.Sprintf("%s %d\n", slug, n)
			if n%6 == 1 {
				text += strings.Repeat("what stays the same\n", 8) // so that it is packed when it is replaced
			}
			if n == 20 || n == 80 || n == 84 {
				text = strings.Repeat(fmt.Sprintf("%s %d\n", slug, n), 15_000) // a file
			}
			path := fmt.Sprintf("/d%d/%d.md", n%2, n%3)
			if n > 75 && len(text) > 1000 {
				path = fmt.Sprintf("/big/%d", n) // the other one is packed
			}
			_, err := st.Write(ctx, path, []byte(text), versionlog.ExpectAny())
			must(err)
		}
		_, err = st.Write(ctx, fmt.Sprintf("/moves/%d", tip.Seq), []byte("moves"), versionlog.ExpectAny())
		must(err)
		_, err = st.Rename(ctx, fmt.Sprintf("/moves/%d", tip.Seq), fmt.Sprintf("/moved/%d", tip.Seq), nil)
		must(err)
		_, err = st.Write(ctx, "/gone.md", []byte(fmt.Sprint("gone ", tip.Seq)), versionlog.ExpectAny())
		must(err)
		_, err = st.Remove(ctx, "/gone.md", versionlog.ExpectAny())
		must(err)
		must(lib.Close())
	}
	db := l.open()
	defer db.Close()
	_, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	must(err)
}

func (l *tamperedLibrary) open() *sql.DB {
	l.t.Helper()
	db, err := sql.Open("sqlite3", l.path())
	if err != nil {
		l.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// read returns every row of every table.
func (l *tamperedLibrary) read() (all []*tamperedTable) {
	l.t.Helper()
	db := l.open()
	defer db.Close()
	texts := func(query string) (all []string) {
		rows, err := db.Query(query)
		if err != nil {
			l.t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				l.t.Fatal(err)
			}
			all = append(all, s)
		}
		return all
	}
	for _, name := range texts(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`) {
		table := &tamperedTable{
			name: name, columns: texts(`SELECT name FROM pragma_table_info('` + name + `') ORDER BY cid`),
			keys: texts(`SELECT name FROM pragma_table_info('` + name + `') WHERE pk > 0`),
		}
		rows, err := db.Query(`SELECT * FROM ` + name)
		if err != nil {
			l.t.Fatal(err)
		}
		for rows.Next() {
			row, into := make([]any, len(table.columns)), make([]any, len(table.columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				l.t.Fatal(err)
			}
			table.rows = append(table.rows, row)
		}
		if err := rows.Close(); err != nil {
			l.t.Fatal(err)
		}
		all = append(all, table)
	}
	return all
}

func (l *tamperedLibrary) pick(r *rand.Rand) *tampering {
	if r.IntN(10) == 0 {
		return l.pickFile(r)
	}
	table := l.tables[r.IntN(len(l.tables))]
	if len(table.rows) == 0 {
		return nil
	}
	row, column := r.IntN(len(table.rows)), r.IntN(len(table.columns))
	name := table.name + "." + table.columns[column]
	switch r.IntN(6) {
	default:
		verb, other := mutateValue(r, table.rows[row][column])
		if verb == "" {
			return nil
		}
		return l.change(fmt.Sprintf("%s %s: row %d, %.80q to %.80q", verb, name, row, fmt.Sprint(table.rows[row][column]), fmt.Sprint(other)),
			statement{table.set(column), append([]any{other}, table.rows[row]...)})
	case 3: // swap
		second := r.IntN(len(table.rows))
		if same(table.rows[row][column], table.rows[second][column]) {
			return nil
		}
		changed := slices.Clone(table.rows[row])
		changed[column] = table.rows[second][column]
		return l.change(fmt.Sprintf("swap %s: rows %d and %d", name, row, second),
			statement{table.set(column), append([]any{table.rows[second][column]}, table.rows[row]...)},
			statement{table.set(column) + ` AND NOT (` + strings.Join(table.is(), " AND ") + `)`, append(append([]any{table.rows[row][column]}, table.rows[second]...), changed...)})
	case 4:
		return l.change(fmt.Sprintf("delete %s: row %d, %.200q", table.name, row, fmt.Sprint(table.rows[row])),
			statement{`DELETE FROM ` + table.name + ` WHERE ` + strings.Join(table.is(), " AND "), table.rows[row]})
	case 5: // an older one
		if len(table.earlier) == 0 {
			return nil
		}
		old := table.earlier[r.IntN(len(table.earlier))]
		for _, now := range table.rows {
			if slices.EqualFunc(now, old, same) {
				return nil
			}
		}
		return l.change(fmt.Sprintf("replay %s: %.200q", table.name, fmt.Sprint(old)),
			statement{`REPLACE INTO ` + table.name + ` VALUES (` + strings.TrimSuffix(strings.Repeat("?,", len(old)), ",") + `)`, old})
	}
}

// is are the conditions that name a row.
func (t *tamperedTable) is() (all []string) {
	for _, c := range t.columns {
		all = append(all, c+" IS ?")
	}
	return all
}

func (t *tamperedTable) set(column int) string {
	return `UPDATE ` + t.name + ` SET ` + t.columns[column] + ` = ? WHERE ` + strings.Join(t.is(), " AND ")
}

func same(a, b any) bool {
	first, isBytes := a.([]byte)
	second, areBytes := b.([]byte)
	if isBytes || areBytes {
		return isBytes && areBytes && bytes.Equal(first, second)
	}
	return a == b
}

// mutateValue is mutate for values that SQLite knows; "" where a value cannot be changed so.
func mutateValue(r *rand.Rand, value any) (verb string, other any) {
	switch v := value.(type) {
	case int64:
		if r.IntN(2) == 0 {
			return "flip", v ^ 1<<r.IntN(8)
		}
		return "flip", v ^ 1<<r.IntN(63)
	case string:
		verb, changed := mutate(r, []byte(v))
		return verb, string(changed)
	case []byte:
		return mutate(r, v)
	}
	return "", nil
}

type statement struct {
	text string
	args []any
}

// change is a tampering by statements, each of which must change a row.
func (l *tamperedLibrary) change(what string, statements ...statement) *tampering {
	return &tampering{what, func() error {
		db := l.open()
		defer db.Close()
		for _, s := range statements {
			result, err := db.Exec(s.text, s.args...)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n == 0 {
				return fmt.Errorf("%s: %d rows, %v", s.text, n, err)
			}
		}
		_, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		return err
	}}
}

// pickFile changes a file with a content.
func (l *tamperedLibrary) pickFile(r *rand.Rand) *tampering {
	path, second := l.files[r.IntN(len(l.files))], l.files[r.IntN(len(l.files))]
	content, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	change := func(verb string, do func() error) *tampering {
		return &tampering{verb + " a file: " + path, func() error {
			l.file, l.content = path, content
			return do()
		}}
	}
	switch r.IntN(5) {
	default:
		verb, other := mutate(r, content)
		return change(verb, func() error { return os.WriteFile(path, other, 0o600) })
	case 3:
		if path == second {
			return nil
		}
		other, err := os.ReadFile(second) // the other one is lost
		if err != nil {
			l.t.Fatal(err)
		}
		return change("replace", func() error { return os.WriteFile(path, other, 0o600) })
	case 4:
		return change("delete", func() error { return os.Remove(path) })
	}
}

// notEvidence are changes that fsck need not find, since nothing that is read follows from
// what they change: see docs/BACKUP.md.
var notEvidence = []string{
	"packing: ", // how far packing has come; a history that is packed again is the same
	"packing.ord: ", "packing.gone: ", "packing.seq: ",
	"packed.id: ", "packed.place: ", "packed.base: ", // how contents are kept: each of them decodes to its SHA-256, or is found
	"replay blobs: ",        // a content that is packed is there once more
	"sqlite_sequence.seq: ", // numbers of stores that are passed over
	"stores.replica: ",      // a property of the copy
}

func (l *tamperedLibrary) isEvidence(what string) bool {
	return !slices.ContainsFunc(notEvidence, func(of string) bool { return strings.Contains(what, of) })
}

func (l *tamperedLibrary) isFound(_ string, code int) bool { return code == 7 }

func (l *tamperedLibrary) restore() {
	l.t.Helper()
	if l.file != "" {
		if err := os.WriteFile(l.file, l.content, 0o600); err != nil {
			l.t.Fatal(err)
		}
		l.file = ""
		return
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(l.path() + suffix); err != nil && !os.IsNotExist(err) {
			l.t.Fatal(err)
		}
	}
	if err := os.WriteFile(l.path(), l.database, 0o600); err != nil {
		l.t.Fatal(err)
	}
}
