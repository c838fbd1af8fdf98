package sqlitelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/versionlog"
)

// newCheckable makes a log with every operation, more commits than fit a page, and
// another store, and returns its database.
func newCheckable(t *testing.T) (database []byte, storeID string) {
	t.Helper()
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addDescribed(t, l, "notes")
	other := addStore(t, l, "other")
	commitContent(t, l, other.ID, "/a", "elsewhere")
	for i := range 7 {
		commitContent(t, l, s.ID, fmt.Sprint("/", i), "x")
	}
	p := putProposal("/two", "y")
	p.Actor, p.Session, p.Message = versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"}, "s", "m"
	p.Changes = append(p.Changes,
		versionlog.Change{Action: versionlog.Rename, Path: "/1", To: "/moved", Expect: versionlog.ExpectAny()},
		versionlog.Change{Action: versionlog.Remove, Path: "/2", Expect: versionlog.ExpectAny()})
	if _, err := l.Commit(t.Context(), s.ID, p); err != nil {
		t.Fatal(err)
	}
	closeOnce(t, l)
	change(t, dir, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return read(t, filepath.Join(dir, DatabaseName)), s.ID
}

// addDescribed makes a store whose history begins with its creation.
func addDescribed(t testing.TB, l *Log, slug string) versionlog.Store {
	t.Helper()
	s := versionlog.Store{
		ID: versionlog.NewStoreID(), Slug: slug, Name: slug, Description: "d", Metadata: map[string]string{"k": "v"},
		Limits: versionlog.Limits{MaxMemoryBytes: 100, Content: versionlog.ContentText}, CreatedAt: time.UnixMicro(1e15),
	}
	if err := l.CreateStore(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	mustHappen(t, l, s.ID, versionlog.StoreCreated(s))
	return s
}

func mustHappen(t testing.TB, l *Log, storeID string, e *versionlog.Event) {
	t.Helper()
	if err := happen(t.Context(), l, storeID, e); err != nil {
		t.Fatal(err)
	}
}

// TestCheckFollowsEvents: what events have made of a store is what its row should say,
// and a history that does not begin with the creation tells nothing of it.
func TestCheckFollowsEvents(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addDescribed(t, l, "notes")
	name, quota := "Notes", int64(5)
	mustHappen(t, l, s.ID, versionlog.StoreUpdated(versionlog.StoreUpdate{
		Name: &name, QuotaBytes: &quota, QuotaMemories: &quota, QuotaPerHour: &quota, Metadata: map[string]*string{"k": nil, "l": &name},
		KeepDays: &quota,
	}))
	mustHappen(t, l, s.ID, versionlog.StorePromoted())
	mustHappen(t, l, s.ID, versionlog.StoreArchived())
	plain := addStore(t, l, "plain")
	commitContent(t, l, plain.ID, "/a", "x")
	mustHappen(t, l, plain.ID, versionlog.StoreUpdated(versionlog.StoreUpdate{Name: &name}))
	closeOnce(t, l)
	change(t, dir, `PRAGMA wal_checkpoint(TRUNCATE)`)
	database := read(t, filepath.Join(dir, DatabaseName))
	for _, test := range []struct{ store, statement, want string }{
		{s.ID, `SELECT 1`, ""},
		{s.ID, `UPDATE stores SET quota_bytes = 6, name = 'Other' WHERE num = 1`, "row stores: name, quota_bytes: not what the records say"},
		{s.ID, `UPDATE stores SET archived_at = NULL WHERE num = 1`, "row stores: archived_at: not what the records say"},
		{s.ID, `UPDATE stores SET epoch = 1 WHERE num = 1`, "row stores: epoch: not what the records say"},
		{s.ID, `UPDATE stores SET metadata = '' WHERE num = 1`, "row stores: metadata: not what the records say"},
		{s.ID, `UPDATE stores SET policy = '' WHERE num = 1`, "row stores: keep_days: not what the records say"},
		{plain.ID, `UPDATE stores SET description = 'other' WHERE num = 2`, ""},
		{s.ID, `UPDATE commits SET record = x'00' WHERE store = 1 AND seq = 4; UPDATE stores SET name = 'Other' WHERE num = 1`, ""},
	} {
		if got := strings.Join(checked(t, database, test.store, test.statement), "\n"); got != test.want {
			t.Errorf("%s: %q, want %q", test.statement, got, test.want)
		}
	}
}

// TestCheckKeyAgain: that commits of an imported history share a key is nothing wrong.
func TestCheckKeyAgain(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	s := addStore(t, l, "notes")
	past := versionlog.NewRehearsal(s)
	for i, path := range []string{"/a", "/b", "/c"} {
		p := putProposal(path, "x")
		p.Key, p.Changes[0].Content = "used again", nil
		c, err := versionlog.Build(past, past.Store(), past.Tip(), p, time.Unix(int64(i), 0))
		if err == nil {
			err = errors.Join(past.Add(c), l.writer.keep(1, p.Changes[0].Digest, []byte("x")))
		}
		if err == nil {
			err = versionlog.Import(t.Context(), l, s.ID, func(yield func(*versionlog.Commit, error) bool) { yield(c, nil) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	report := func(p Problem) { t.Errorf("%+v", p) }
	if err := errors.Join(l.CheckDatabase(t.Context(), report), l.Check(t.Context(), s.ID, report)); err != nil {
		t.Error(err)
	}
	c, err := l.Commit(t.Context(), s.ID, &versionlog.Proposal{Key: "used again", Changes: putProposal("/d", "y").Changes})
	if err != nil || c.Seq != 3 {
		t.Errorf("the key is that of %+v, %v; want commit 3", c, err)
	}
}

// checked returns what Check says of a database that statements have changed.
func checked(t *testing.T, database []byte, storeID string, statements ...string) (found []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DatabaseName), database, 0o600); err != nil {
		t.Fatal(err)
	}
	change(t, dir, statements...)
	l := openTest(t, dir, &Options{ReadOnly: true})
	report := func(p Problem) { found = append(found, p.Subject+": "+p.What) }
	if err := errors.Join(l.CheckDatabase(t.Context(), report), l.Check(t.Context(), storeID, report)); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCheckFindsEveryColumn changes each column of each row that follows from a
// record, whatever columns the tables have.
func TestCheckFindsEveryColumn(t *testing.T) {
	database, storeID := newCheckable(t)
	if found := checked(t, database, storeID); found != nil {
		t.Fatalf("of a sound log: %q", found)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DatabaseName), database, 0o600); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	keys := map[string]string{ // which row is changed
		"commits": "store = 1 AND seq = 9", "versions": "store = 1 AND seq = 9 AND ord = 1", "paths": "store = 1 AND path = '/3'",
		"stores": "num = 1",
	}
	// These columns are in no record, or package memory compares them, or makes them again.
	others := map[string]bool{"num": true, "id": true, "slug": true, "replica": true, "tip_seq": true, "tip_digest": true}
	for table, where := range keys {
		columns := texts(t, db, `SELECT name || ' ' || type FROM pragma_table_info('`+table+`')`)
		if len(columns) < 5 {
			t.Fatalf("table %s has columns %q", table, columns)
		}
		for _, column := range columns {
			name, kind, _ := strings.Cut(column, " ")
			if table == "stores" && others[name] {
				continue
			}
			if name == "record" { // that is what the others are compared with
				continue
			}
			value := name + " || 'x'"
			switch {
			case kind == "BLOB":
				value = "zeroblob(32)"
			case name == "live":
				value = "0"
			case name == "metadata":
				value = `'{"k":"x"}'`
			case name == "policy":
				value = `'{"secrets":"warn"}'`
			case name == "archived_at", name == "updated_at":
				value = "1"
			case kind == "INTEGER":
				value = name + " + 1000"
			}
			if found := checked(t, database, storeID, fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s`, table, name, value, where)); found == nil {
				t.Errorf("%s.%s: nothing is found", table, name)
			}
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	database, storeID := newCheckable(t)
	for _, test := range []struct{ statement, want string }{
		{`UPDATE commits SET actor_id = 'you', session = '', message = 'n' WHERE store = 1 AND seq = 9`, "row commits 9: actor_id, session, message: not what the record says"},
		{`UPDATE versions SET path = '/z', size = 2 WHERE store = 1 AND seq = 4`, "row versions 4: path, size: not what the record says"},
		{`UPDATE versions SET spelling = '/Z' WHERE store = 1 AND seq = 4`, "row versions 4: spelling: not what the record says"},
		{`DELETE FROM versions WHERE store = 1 AND seq = 9 AND ord = 2`, "row versions 9: there are 2, the record has 3"},
		{`INSERT INTO versions SELECT store, seq, 3, id, memory_id, parent, op, path, from_path, sha256, size, spelling FROM versions WHERE store = 1 AND seq = 9 AND ord = 0`, "row versions 9: there are 4, the record has 3"},
		{`DELETE FROM paths WHERE store = 1 AND path = '/2'`, "row paths /2: it is missing"},
		{`INSERT INTO paths VALUES (1, '/z', 4, 0, 1)`, "row paths /z: it follows from no record"},
		{`UPDATE paths SET live = 1 WHERE store = 1 AND path = '/1'`, "row paths /1: it is not what follows from the records"},
		{`UPDATE versions SET seq = 99 WHERE store = 1 AND seq = 9 AND ord = 2`, "row versions 99: it is outside the history"},
		{`UPDATE versions SET seq = 0 WHERE store = 1 AND seq = 9 AND ord = 2`, "row versions 0: it is outside the history"},
		{`UPDATE paths SET seq = 99 WHERE store = 1 AND path = '/2'`, "row paths 99: it is outside the history"},
		{`UPDATE stores SET tip_seq = 8 WHERE num = 1`, "row commits 9: it is outside the history"},
		{`UPDATE stores SET tip_time = tip_time + 1 WHERE num = 1`, "row stores: it has another time for the newest commit than the record"},
		{`UPDATE stores SET total_bytes = total_bytes - 1 WHERE num = 1`, "row stores: it counts "},
		{`UPDATE stores SET counted_seq = tip_seq - 1 WHERE num = 1`, "row stores: it counts "},
		{`UPDATE stores SET counted_seq = tip_seq + 1 WHERE num = 1`, "row stores: it counts up to commit 10, and its newest is 9"},
		{`INSERT INTO packed_records VALUES (1, 3, 2, x'00')`, "row packed_records 3: it is not of just those commits"},
		{`REPLACE INTO packing VALUES (1, 99, 0, 0)`, "row packing 99: it is outside the history"},
		{`INSERT INTO files_left SELECT store, sha256 FROM blobs WHERE store = 1 LIMIT 1; DELETE FROM blobs WHERE sha256 IN (SELECT sha256 FROM files_left)`, "row files_left "},
		{`INSERT INTO packed (store, sha256, place, data) VALUES (1, zeroblob(32), 1024, NULL)`, "row packed 0000000000000000000000000000000000000000000000000000000000000000: its place is in no tree"},
		{`INSERT INTO packed (store, sha256, place, data) SELECT store, sha256, 1, x'00' FROM blobs WHERE store = 1`, ": it does not decode to its content"},
		{`DELETE FROM sqlite_sequence`, "table sqlite_sequence: it does not say"},
		{`UPDATE sqlite_sequence SET seq = 1`, "table sqlite_sequence: it does not say"},
		{`UPDATE sqlite_sequence SET name = 'Stores'`, "table sqlite_sequence: it does not say"},
	} {
		found := checked(t, database, storeID, test.statement)
		if !strings.Contains(strings.Join(found, "\n"), test.want) {
			t.Errorf("%s: %q, want %q", test.statement, found, test.want)
		}
	}
	// Other findings report the fault in the record, and the columns that only the record gives
	// are not known.
	for _, statement := range []string{`UPDATE commits SET record = x'00' WHERE store = 1 AND seq = 4`, `DELETE FROM commits WHERE store = 1 AND seq = 4`} {
		if found := checked(t, database, storeID, statement); strings.Contains(strings.Join(found, "\n"), "paths") {
			t.Errorf("%s: %q", statement, found)
		}
	}
}

// TestCheckFindsOtherText changes records where no digest covers them, and a decoder sees
// no difference.
func TestCheckFindsOtherText(t *testing.T) {
	dir := t.TempDir()
	l := openTest(t, dir, nil)
	s := addDescribed(t, l, "notes")
	commitContent(t, l, s.ID, "/a", "x")
	closeOnce(t, l)
	change(t, dir, `PRAGMA wal_checkpoint(TRUNCATE)`)
	database := read(t, filepath.Join(dir, DatabaseName))
	if found := checked(t, database, s.ID); found != nil {
		t.Fatalf("of a sound log: %q", found)
	}
	for _, text := range []string{
		`record || ' '`, `replace(record, '"seq"', '"Seq"')`, `replace(record, '{"format"', '{"note":1,"format"')`,
		`replace(record, '{"format":2', '{"format":1,"format":2')`, `replace(record, '"/a"', '"\u002fa"')`,
	} {
		found := checked(t, database, s.ID, `UPDATE commits SET record = CAST(`+text+` AS BLOB) WHERE seq = 2`)
		if want := "row commits 2: record: it has more than what its digests cover, or has it in another form"; !slices.Equal(found, []string{want}) {
			t.Errorf("%s: %q, want %q", text, found, want)
		}
	}
}

// TestCheckFindsIndexes leaves a version out of the index by which the history of a
// memory is read, and its rows as they are.
func TestCheckFindsIndexes(t *testing.T) {
	database, storeID := newCheckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DatabaseName), database, 0o600); err != nil {
		t.Fatal(err)
	}
	was := texts(t, raw(t, dir), `SELECT memory_id FROM versions WHERE store = 1 AND seq = 4`)[0]
	const moved = `UPDATE versions SET memory_id = '%s' WHERE store = 1 AND seq = 4`
	change(t, dir, fmt.Sprintf(moved, "mem_x"), `PRAGMA writable_schema = ON`,
		`CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'versions_memory'`, `DELETE FROM sqlite_schema WHERE name = 'versions_memory'`)
	change(t, dir, fmt.Sprintf(moved, was), `PRAGMA writable_schema = ON`,
		`INSERT INTO sqlite_schema SELECT * FROM kept`, `PRAGMA wal_checkpoint(TRUNCATE)`)
	found := checked(t, read(t, filepath.Join(dir, DatabaseName)), storeID)
	if !slices.Contains(found, "table versions: row 3 missing from index versions_memory") {
		t.Errorf("found %q", found)
	}
}

// TestCheckWhileWritten holds that commits made meanwhile are no problem.
func TestCheckWhileWritten(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	s := addStore(t, l, "notes")
	for i := range 20 {
		commitContent(t, l, s.ID, fmt.Sprint("/", i%7), fmt.Sprint(i))
	}
	row, err := l.store(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(l, row, func(p Problem) { t.Errorf("%+v", p) })
	for i, step := range []func() error{
		func() error { return c.commits(t.Context()) }, func() error { return c.pathRows(t.Context()) },
		func() error { return c.strays(t.Context()) }, func() error { return c.contents(t.Context()) },
	} {
		commitContent(t, l, s.ID, "/new", fmt.Sprint(i))
		commitContent(t, l, s.ID, "/3", fmt.Sprint("more ", i))
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
