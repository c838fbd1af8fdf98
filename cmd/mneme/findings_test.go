package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/backend"
	"mneme/cmd/mneme/upkeep"
	"mneme/finding"
	"mneme/versionlog"
)

// findingCase makes a finding in a library that is sound.
type findingCase struct {
	place  string     // part of the subject
	steps  [][]string // statements, on a connection for each step
	spoil  func() error
	cmd    upkeep.FsckCmd
	remove string // a file that is there afterwards
}

// TestFindings makes every finding that an embedded store can have, by changing rows and
// files, and wants it to be reported with its place, by --repair as well, which mends
// nothing of these, and again by a second run, with nothing besides.
func TestFindings(t *testing.T) {
	tamperedHome(t)
	l := newTamperedLibrary(t)
	if code, output := fsckIn(t, l.url(), upkeep.FsckCmd{}); code != 0 {
		t.Fatalf("before: exit code %d\n%s", code, output)
	}
	cases := l.findingCases()
	for _, info := range finding.All() {
		c, ok := cases[info.Kind]
		if ok != (info.Embedded >= 0) {
			t.Errorf("%s: case %v, and of embedded stores it is %v", info.Kind, ok, info.Embedded)
		}
		if !ok {
			continue
		}
		t.Run(string(info.Kind), func(t *testing.T) {
			for _, statements := range c.steps {
				l.mustExec(statements)
			}
			if c.spoil != nil {
				if err := c.spoil(); err != nil {
					t.Fatal(err)
				}
			}
			code, output := fsckIn(t, l.url(), c.cmd)
			if code != 7 || !reported(output, info.Kind, c.place) {
				t.Errorf("exit code %d, want %s at %q\n%s", code, info.Kind, c.place, output)
			}
			repair := c.cmd
			repair.Repair = true
			for _, cmd := range []upkeep.FsckCmd{repair, c.cmd} {
				if cmd.Repair && info.Embedded == finding.Accept { // such a store is not opened for writing
					continue
				}
				again, other := fsckIn(t, l.url(), cmd)
				if diff := cmp.Diff(sortedLines(output), sortedLines(other)); again != code || diff != "" {
					t.Errorf("repair %v: exit code %d, findings (-first +second):\n%s", cmd.Repair, again, diff)
				}
			}
			if c.remove != "" {
				if err := os.Remove(c.remove); err != nil {
					t.Fatal(err)
				}
			}
			l.restore()
		})
	}
	if code, output := fsckIn(t, l.url(), upkeep.FsckCmd{}); code != 0 {
		t.Errorf("afterwards: exit code %d\n%s", code, output)
	}
}

// TestFindingsAreDescribed: the page for operators has a line for every kind of finding,
// with what mends it.
func TestFindingsAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/BACKUP.md")
	if err != nil {
		t.Fatal(err)
	}
	repairs := map[finding.Repair]string{
		-1: "–", finding.None: "a backup", finding.Cache: "`--repair`", finding.Rebuild: "`--rebuild-index`",
		finding.Itself: "by itself", finding.Accept: "`--accept-loss`", finding.Redact: "`mneme redact` with the versions",
	}
	for _, info := range finding.All() {
		line := regexp.MustCompile(fmt.Sprintf("(?m)^\\| `%s` \\| [^|]+ \\| %s \\| %s \\|$", info.Kind, repairs[info.Embedded], repairs[info.AWS]))
		if !line.Match(page) {
			t.Errorf("docs/BACKUP.md has no line that fits %s", line)
		}
	}
}

// sortedLines are the lines of an output: contents are read several at once.
func sortedLines(output string) []string {
	return slices.Sorted(strings.Lines(output))
}

// reported finds a problem in what fsck prints. It must say what to do.
func reported(output string, kind finding.Kind, place string) bool {
	for line := range strings.Lines(output) {
		var p struct {
			Type, Store, Kind, Finding, Subject, Problem, Advice string
			Repaired                                             bool
		}
		if json.Unmarshal([]byte(line), &p) == nil && p.Finding == string(kind) && strings.Contains(p.Subject, place) && p.Advice != "" {
			return true
		}
	}
	return false
}

// mustExec runs statements on one connection.
func (l *tamperedLibrary) mustExec(statements []string) {
	l.t.Helper()
	db := l.open()
	defer db.Close()
	for _, s := range append(statements, `PRAGMA wal_checkpoint(TRUNCATE)`) {
		if _, err := db.Exec(s); err != nil {
			l.t.Fatalf("%s: %v", s, err)
		}
	}
}

// commit returns a commit of the store notes.
func (l *tamperedLibrary) commit(seq uint64) *versionlog.Commit {
	l.t.Helper()
	lib, err := backend.Open(l.t.Context(), l.url(), &backend.Options{ReadOnly: true, Direct: true})
	if err != nil {
		l.t.Fatal(err)
	}
	defer lib.Close()
	info, err := lib.FindStore(l.t.Context(), "notes")
	if err != nil {
		l.t.Fatal(err)
	}
	st, err := lib.Open(l.t.Context(), info.ID, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for c, err := range st.Commits(l.t.Context(), seq-1) {
		if err != nil {
			l.t.Fatal(err)
		}
		return c
	}
	l.t.Fatalf("there is no commit %d", seq)
	return nil
}

// setRecord is a statement that gives a commit another record.
func setRecord(seq uint64, record string) string {
	return fmt.Sprintf(`UPDATE commits SET record = x'%x' WHERE store = 1 AND seq = %d`, record, seq)
}

// findingCases are one case for each kind.
func (l *tamperedLibrary) findingCases() map[finding.Kind]findingCase {
	const seq = 80 // a version of one memory, with others before and after it
	record := func(change func(*forgedRecord)) []string {
		return []string{setRecord(seq, forge(l.t, l.commit(seq), change))}
	}
	encoded := func(c *versionlog.Commit) string {
		text, err := versionlog.EncodeRecord(c)
		if err != nil {
			l.t.Fatal(err)
		}
		return string(text)
	}
	c, text := l.commit(seq), l.commit(seq + 2).Versions[0].Digest // which is a row
	one := func(place string, statements ...string) findingCase {
		return findingCase{place: place, steps: [][]string{statements}}
	}
	unneeded := filepath.Join(filepath.Dir(filepath.Dir(l.files[0])), "00", strings.Repeat("0", 64))
	zeroes, needed := strings.Repeat("0", 64), filepath.Base(l.files[0])
	head := fmt.Sprintf("x'%x'", text[:])
	return map[finding.Kind]findingCase{
		finding.RecordUnreadable: one("commit 80", setRecord(seq, "{}")),
		finding.RecordErased:     one("commit 80", setRecord(seq, encoded(c.Erase(c.Versions[0].ID)))),
		finding.RecordChain:      one("commit 80", record(func(r *forgedRecord) { r.Prev = strings.Repeat("ab", 32) })...),
		finding.RecordEpoch:      one("commit 80", record(func(r *forgedRecord) { r.Epoch = 2 })...),
		finding.RecordVersions:   one("commit 80", record(func(r *forgedRecord) { r.Versions[0].Parent = "memver_other" })...),
		finding.RecordTip:        one("commit ", `UPDATE stores SET tip_digest = zeroblob(32) WHERE num = 1`),
		finding.Head:             one(c.Versions[0].Path, `UPDATE paths SET live = 0 WHERE store = 1 AND path = '`+c.Versions[0].Path+`'`),
		finding.BlobMissing:      one(text.String(), `DELETE FROM blobs WHERE sha256 = `+head, `DELETE FROM packed WHERE sha256 = `+head),
		finding.BlobDamaged: one(text.String(), `DELETE FROM packed WHERE sha256 = `+head, `DELETE FROM blobs WHERE sha256 = `+head,
			`INSERT INTO blobs VALUES (1, `+head+`, x'00')`),
		finding.BlobBase: one("blob ", `UPDATE blobs SET data = x'00' WHERE sha256 IN (SELECT sha256 FROM packed WHERE data IS NULL)`),
		finding.History:  {place: "history", cmd: upkeep.FsckCmd{Store: "notes", Against: "5:" + strings.Repeat("ab", 32)}},
		finding.LossSeen: one("store", `UPDATE stores SET slug = 'renamed' WHERE num = 1`),
		finding.Loss:     {place: "history", spoil: func() error { return os.WriteFile(l.path(), l.older, 0o600) }},

		finding.StoreTotals:    one("row stores", `UPDATE stores SET counted_seq = counted_seq - 1 WHERE num = 1`),
		finding.StoreRow:       one("row stores", `UPDATE stores SET quota_bytes = 77 WHERE num = 1`),
		finding.CommitRow:      one("row commits 80", `UPDATE commits SET actor_id = 'you' WHERE store = 1 AND seq = 80`),
		finding.CommitText:     one("row commits 80", setRecord(seq, encoded(c)+" ")),
		finding.VersionRow:     one("row versions 80", `UPDATE versions SET size = 77 WHERE store = 1 AND seq = 80`),
		finding.PathRow:        one("row paths /made", `INSERT INTO paths VALUES (1, '/made', 80, 0, 0)`),
		finding.RowOutside:     one("row versions 999", `UPDATE versions SET seq = 999 WHERE store = 1 AND seq = 80`),
		finding.RecordFrame:    one("row packed_records 1", `UPDATE packed_records SET last = last - 1 WHERE store = 1 AND seq = 1`),
		finding.PackedPlace:    one("row packed ", `UPDATE packed SET place = -1 WHERE store = 1`),
		finding.PackedContent:  one("row packed ", `INSERT INTO packed (store, sha256, place, data) SELECT store, sha256, 0, x'00' FROM blobs WHERE store = 2`),
		finding.PackedProgress: one("row packing 999", `UPDATE packing SET seq = 999 WHERE store = 1`),
		finding.FileLeft:       one("row files_left "+needed, `INSERT INTO files_left VALUES (1, x'`+needed+`')`),
		finding.BlobUnneeded:   one("blob "+zeroes, `INSERT INTO blobs VALUES (1, zeroblob(32), x'00')`),
		finding.FileUnneeded: {place: "file " + zeroes, remove: unneeded, spoil: func() error {
			if err := os.MkdirAll(filepath.Dir(unneeded), 0o700); err != nil {
				return err
			}
			return os.WriteFile(unneeded, []byte("x"), 0o600)
		}},
		finding.SchemaForeign:   one(`trigger "spy"`, `CREATE TRIGGER spy AFTER INSERT ON commits BEGIN SELECT 1; END`),
		finding.SchemaOther:     one("table commits", `ALTER TABLE commits ADD COLUMN extra TEXT`),
		finding.SchemaMissing:   one("index versions_memory", `DROP INDEX versions_memory`),
		finding.SQLiteIndex:     {place: "table versions", steps: l.hideFromIndex()},
		finding.BlobIndex:       {place: "table blobs", steps: l.hideFromBlobIndex()},
		finding.BlobKey:         one("table blobs", `INSERT INTO blobs VALUES (1, x'00', x'00')`),
		finding.RowsOfNoStore:   one("table packing", `INSERT INTO packing VALUES (77, 1, 0, 0)`),
		finding.RowsOfGoneStore: one("table paths", `UPDATE sqlite_sequence SET seq = 99`, `INSERT INTO paths VALUES (99, '/a', 1, 0, 1)`),
		finding.StoreSlug:       one("row stores memstore_", `UPDATE stores SET slug = '' WHERE num = 1`),
		finding.StoreNumbers:    one("table sqlite_sequence", `UPDATE sqlite_sequence SET seq = 1`),
	}
}

// hideFromIndex makes the index of memories lack a row.
func (l *tamperedLibrary) hideFromIndex() [][]string {
	return [][]string{
		{
			`PRAGMA writable_schema = ON`, `CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'versions_memory'`,
			`DELETE FROM sqlite_schema WHERE name = 'versions_memory'`,
		},
		{`CREATE TABLE was AS SELECT memory_id FROM versions WHERE store = 1 AND seq = 80`, `UPDATE versions SET memory_id = 'mem_x' WHERE store = 1 AND seq = 80`},
		{`PRAGMA writable_schema = ON`, `INSERT INTO sqlite_schema SELECT * FROM kept`, `DROP TABLE kept`},
	}
}

// hideFromBlobIndex makes the index of blobs lack a row.
func (l *tamperedLibrary) hideFromBlobIndex() [][]string {
	const index = `sqlite_autoindex_blobs_1`
	db := l.open()
	defer db.Close()
	var root, table string
	if err := db.QueryRow(`SELECT (SELECT rootpage FROM sqlite_schema WHERE name = ?), (SELECT sql FROM sqlite_schema WHERE name = 'blobs')`, index).Scan(&root, &table); err != nil {
		l.t.Fatal(err)
	}
	define := func(sql string) string { return `UPDATE sqlite_schema SET sql = '` + sql + `' WHERE name = 'blobs'` }
	bare := strings.NewReplacer("data   BLOB    NOT NULL,", "data BLOB NOT NULL", "PRIMARY KEY (store, sha256)", "").Replace(table)
	return [][]string{
		{`PRAGMA writable_schema = ON`, `DELETE FROM sqlite_schema WHERE name = '` + index + `'`, define(bare)},
		{`INSERT INTO blobs SELECT * FROM blobs WHERE store = 2 LIMIT 1`},
		{
			`PRAGMA writable_schema = ON`, define(table),
			`INSERT INTO sqlite_schema VALUES ('index', '` + index + `', 'blobs', ` + root + `, NULL)`,
		},
	}
}

// forgedRecord is a record as docs/FORMAT.md describes it, without events.
type forgedRecord struct {
	Format  int    `json:"format"`
	StoreID string `json:"store_id"`
	Seq     uint64 `json:"seq"`
	Epoch   uint64 `json:"epoch"`
	Time    string `json:"time"`
	Actor   struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	} `json:"actor"`
	Session  string            `json:"session,omitempty"`
	Message  string            `json:"message,omitempty"`
	Key      string            `json:"key"`
	Meta     map[string]string `json:"meta,omitempty"`
	Prev     string            `json:"prev"`
	Versions []struct {
		ID       string `json:"id"`
		MemoryID string `json:"memory_id"`
		Parent   string `json:"parent,omitempty"`
		Op       string `json:"op"`
		Payload  string `json:"payload"`
		Salt     string `json:"salt,omitempty"`
		Path     string `json:"path,omitempty"`
		From     string `json:"from,omitempty"`
		Spelling string `json:"spelling,omitempty"`
		SHA256   string `json:"sha256,omitempty"`
		Size     int64  `json:"size"`
	} `json:"versions"`
	Digest string `json:"digest"`
}

// forge changes the record of a commit, and gives it the digest that fits.
func forge(t testing.TB, c *versionlog.Commit, change func(*forgedRecord)) string {
	t.Helper()
	text, err := versionlog.EncodeRecord(c)
	if err != nil {
		t.Fatal(err)
	}
	var r forgedRecord
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if same := r.digest(); same != r.Digest {
		t.Fatalf("the digest of a record is %s, by docs/FORMAT.md it is %s", r.Digest, same)
	}
	change(&r)
	r.Digest = r.digest()
	if text, err = json.Marshal(&r); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (r *forgedRecord) digest() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "mneme commit v%d\n", r.Format)
	line := func(name, value string) { _, _ = fmt.Fprintf(h, "%s %d:%s\n", name, len(value), value) }
	line("store_id", r.StoreID)
	line("seq", fmt.Sprint(r.Seq))
	line("epoch", fmt.Sprint(r.Epoch))
	line("time", r.Time)
	line("actor_kind", r.Actor.Kind)
	line("actor_id", r.Actor.ID)
	line("session", r.Session)
	line("message", r.Message)
	line("key", r.Key)
	for _, key := range slices.Sorted(maps.Keys(r.Meta)) {
		line("meta", key)
		line("value", r.Meta[key])
	}
	line("prev", r.Prev)
	for _, v := range r.Versions {
		line("version", v.ID)
		line("memory_id", v.MemoryID)
		line("parent", v.Parent)
		line("op", v.Op)
		line("payload", v.Payload)
	}
	return hex.EncodeToString(h.Sum(nil))
}
