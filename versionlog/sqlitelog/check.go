package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mneme/cas"
	"mneme/finding"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// Problem is a row of the database that is not what follows from the records.
type Problem struct {
	Finding finding.Kind
	Subject string // "row commits 12", "row paths /todo.md"
	What    string // what is wrong with it
	Do      string // what a person can do about it
}

const doRestore = "the records are the truth, and commands show what the rows say: go back to a backup of log.db"

// checker is one run of Check.
type checker struct {
	log    *Log
	store  storeRow
	report func(Problem)
	whole  bool               // every record could be read
	paths  map[string]pathRow // what follows from the records
	lives  map[string]string  // of them, where a memory lives, by its id
	tip    versionlog.Tip     // that follows from them
	counts versionlog.Totals  // that follow from them, up to the commit that the store's row counts to
	told   versionlog.Told    // by them, of the store

	digests map[cas.Digest]struct{} // of the contents of all versions
	files   Files                   // nil: the store has none
	inFiles map[cas.Digest]struct{} // contents in files, as listed once
}

func newChecker(l *Log, s storeRow, report func(Problem)) *checker {
	return &checker{log: l, store: s, report: report, whole: true, paths: map[string]pathRow{}, lives: map[string]string{}, digests: map[cas.Digest]struct{}{}}
}

// pathRow is a row of the table paths.
type pathRow struct {
	seq  int64
	ord  int
	live bool
}

// commitRow is a row of the table commits, and its record; nil: it cannot be read.
type commitRow struct {
	key, kind, id, session, message string
	seq, micros                     int64
	data                            []byte // of the record, until it is decoded
	record                          *versionlog.Commit
	other                           bool // the record's text is not the one that the commit has
}

// versionRow is a row of the table versions.
type versionRow struct {
	ord      int
	noDigest bool // what it has in its place is none
	versionlog.Version
}

const (
	commitRowsBetween = `SELECT key, actor_kind, actor_id, session, message, seq, time, record FROM commits
		WHERE store = ? AND seq > ? AND seq <= ? ORDER BY seq`
	versionRowsBetween = `SELECT seq, ord, id, memory_id, parent, op, path, from_path, sha256, size, ` + spellingColumn + ` FROM versions v
		WHERE store = ? AND seq > ? AND seq <= ? ORDER BY seq, ord`

	// strayRows are rows of no commit.
	strayRows = `SELECT 'versions', v.seq FROM versions v JOIN stores s ON s.num = v.store WHERE v.store = ?1 AND (v.seq < 1 OR v.seq > s.tip_seq)` + unlessEarly + `
		UNION SELECT 'commits', c.seq FROM commits c JOIN stores s ON s.num = c.store WHERE c.store = ?1 AND (c.seq < 1 OR c.seq > s.tip_seq)
		UNION SELECT 'paths', p.seq FROM paths p JOIN stores s ON s.num = p.store WHERE p.store = ?1 AND (p.seq < 1 OR p.seq > s.tip_seq)`
)

// commits compares the rows of commits and versions, page by page.
func (c *checker) commits(ctx context.Context) error {
	tip := int64(c.store.tip.Seq)
	for after := int64(0); after < tip; {
		var commits []commitRow
		versions := map[int64][]versionRow{}
		upto := min(after+int64(pageRecords), tip)
		err := c.reading(ctx, func(conn *sqlite.Conn) (err error) {
			clear(versions)
			if commits, err = c.commitRows(ctx, conn, after, upto); err != nil {
				return err
			}
			return conn.Each(versionRowsBetween, func(row *sqlite.Row) error {
				v := scanVersionRow(row)
				versions[int64(v.Seq)] = append(versions[int64(v.Seq)], v)
				return nil
			}, c.store.num, after, upto)
		})
		if err != nil {
			return err
		}
		for i := range commits {
			c.commit(&commits[i], versions[commits[i].seq])
			delete(versions, commits[i].seq)
		}
		for _, seq := range slices.Sorted(maps.Keys(versions)) {
			c.differs(finding.VersionRow, "versions", seq, "it is of no commit")
		}
		c.whole = c.whole && int64(len(commits)) == upto-after
		after = upto
	}
	switch counted := c.store.counted; {
	case counted > c.store.tip.Seq:
		c.report(Problem{finding.StoreTotals, "row stores", fmt.Sprintf("it counts up to commit %d, and its newest is %d", counted, c.store.tip.Seq), doRestore})
	case c.whole && c.counts != c.store.tip.Totals && c.log.stores.format >= quotasFormat:
		c.report(Problem{finding.StoreTotals, "row stores", fmt.Sprintf("it counts %v, the records %v up to commit %d", totalsText(c.store.tip.Totals), totalsText(c.counts), counted), doRestore})
	}
	if wrong := c.told.Contradicts(&c.store.Store); c.whole && wrong != nil {
		c.report(Problem{finding.StoreRow, "row stores", strings.Join(wrong, ", ") + ": not what the records say", doRestore})
	}
	return nil
}

// commitRows reads the rows of commits above after up to one, with their records.
func (c *checker) commitRows(ctx context.Context, conn *sqlite.Conn, after, upto int64) ([]commitRow, error) {
	from := inTransaction{conn}
	of := &records{source: from, store: c.store.num}
	rows, err := queryAll(ctx, from, commitRowsBetween, func(row *sqlite.Row) (commitRow, error) {
		return commitRow{
			key: row.ColumnText(0), kind: row.ColumnText(1), id: row.ColumnText(2), session: row.ColumnText(3), message: row.ColumnText(4),
			seq: row.ColumnInt64(5), micros: row.ColumnInt64(6), data: row.ColumnBlob(7, nil),
		}, nil
	}, c.store.num, after, upto)
	for i := range rows {
		text, recordErr := rows[i].data, error(nil)
		if len(text) == 0 {
			text, recordErr = of.packed(ctx, rows[i].seq)
		}
		if recordErr == nil {
			rows[i].record, recordErr = recordRow{rows[i].seq, text}.decode()
		}
		if recordErr != nil && !isUnreadable(recordErr) {
			return nil, recordErr
		}
		rows[i].other = rows[i].record != nil && !rows[i].record.HasRecord(text)
		rows[i].data = nil
	}
	return rows, err
}

func scanVersionRow(row *sqlite.Row) versionRow {
	v := versionRow{ord: row.ColumnInt(1), Version: versionlog.Version{
		Seq: uint64(row.ColumnInt64(0)), ID: row.ColumnText(2), MemoryID: row.ColumnText(3), Parent: row.ColumnText(4),
		Op: versionlog.Op(row.ColumnText(5)), Path: row.ColumnText(6), From: row.ColumnText(7), Size: row.ColumnInt64(9),
		Spelling: row.ColumnText(10),
	}}
	var err error
	v.Digest, err = digestIn(row, 8)
	v.noDigest = err != nil
	return v
}

// commit compares a commit's rows with its record, and notes what follows for the
// paths.
func (c *checker) commit(row *commitRow, versions []versionRow) {
	record := row.record
	if record == nil {
		c.whole = false
		return
	}
	var wrong []string
	for _, column := range []struct {
		name string
		same bool
	}{
		{"key", row.key == record.Key || row.key == fmt.Sprintf(keyAside, record.Key, record.Seq)}, {"time", row.micros == record.Time.UnixMicro()},
		{"actor_kind", row.kind == string(record.Actor.Kind)}, {"actor_id", row.id == record.Actor.ID},
		{"session", row.session == record.Session}, {"message", row.message == record.Message},
	} {
		if !column.same {
			wrong = append(wrong, column.name)
		}
	}
	if wrong != nil {
		c.differs(finding.CommitRow, "commits", row.seq, notTheRecords(wrong))
	}
	if row.other {
		c.differs(finding.CommitText, "commits", row.seq, "record: it has more than what its digests cover, or has it in another form")
	}
	if c.tip = c.tip.After(record); record.Seq == c.store.counted {
		c.counts = c.tip.Totals
	}
	c.told.Add(record)
	if row.seq == int64(c.store.tip.Seq) && !c.store.tip.Time.Equal(record.Time) {
		c.report(Problem{finding.StoreRow, "row stores", "it has another time for the newest commit than the record", doRestore})
	}
	if len(versions) != len(record.Versions) {
		c.differs(finding.VersionRow, "versions", row.seq, fmt.Sprintf("there are %d, the record has %d", len(versions), len(record.Versions)))
	}
	for ord := range record.Versions {
		v := &record.Versions[ord]
		if ord < len(versions) {
			if wrong := versions[ord].wrong(ord, v); wrong != nil {
				c.differs(finding.VersionRow, "versions", row.seq, notTheRecords(wrong))
			}
		}
		if path, lives := c.lives[v.MemoryID]; lives { // v may be erased, and not tell where it was
			left := c.paths[path]
			left.live = false
			c.paths[path] = left
			delete(c.lives, v.MemoryID)
		}
		if v.Redacted() {
			continue
		}
		if v.Live() {
			c.lives[v.MemoryID] = v.Path
		}
		if v.Op == versionlog.OpRenamed {
			c.paths[v.From] = pathRow{row.seq, ord, false}
		}
		c.paths[v.Path] = pathRow{row.seq, ord, v.Live()}
		if !v.Digest.IsZero() {
			c.digests[v.Digest] = struct{}{}
		}
	}
}

func totalsText(t versionlog.Totals) string {
	return fmt.Sprintf("%d bytes of history, %d memories and %d versions in the last hour", t.Bytes, t.Memories, t.InHour)
}

// wrong returns the columns that differ from a version of the record.
func (r *versionRow) wrong(ord int, v *versionlog.Version) (columns []string) {
	for _, column := range []struct {
		name string
		same bool
	}{
		{"ord", r.ord == ord}, {"id", r.ID == v.ID}, {"memory_id", r.MemoryID == v.MemoryID}, {"parent", r.Parent == v.Parent},
		{"op", r.Op == v.Op}, {"path", r.Path == v.Path}, {"from_path", r.From == v.From}, {"sha256", r.Digest == v.Digest && !r.noDigest}, {"size", r.Size == v.Size},
		{"spelling", r.Spelling == v.Spelling},
	} {
		if !column.same {
			columns = append(columns, column.name)
		}
	}
	return columns
}

func notTheRecords(columns []string) string {
	return strings.Join(columns, ", ") + ": not what the record says"
}

func (c *checker) differs(kind finding.Kind, table string, seq int64, what string) {
	c.report(Problem{kind, fmt.Sprintf("row %s %d", table, seq), what, doRestore})
}

// pathRows compares the table paths. Rows that a later commit has changed are left
// out.
func (c *checker) pathRows(ctx context.Context) error {
	if !c.whole {
		return nil
	}
	type named struct {
		path string
		pathRow
	}
	rows := paged(pageRows, func(last *named, room []named) ([]named, error) {
		after := ""
		if last != nil {
			after = last.path
		}
		return queryInto(ctx, room, c.log.db, pathRowsAfter(pageRows), func(row *sqlite.Row) (named, error) {
			return named{row.ColumnText(0), pathRow{row.ColumnInt64(1), row.ColumnInt(2), row.ColumnInt64(3) != 0}}, nil
		}, c.store.num, after)
	})
	for row, err := range rows {
		if err != nil {
			return err
		}
		want, known := c.paths[row.path]
		delete(c.paths, row.path)
		switch {
		case row.seq > int64(c.store.tip.Seq): // if of no commit, it is a stray
		case !known:
			c.report(Problem{finding.PathRow, "row paths " + row.path, "it follows from no record", doRestore})
		case row.pathRow != want:
			c.report(Problem{finding.PathRow, "row paths " + row.path, "it is not what follows from the records", doRestore})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.paths)) {
		c.report(Problem{finding.PathRow, "row paths " + path, "it is missing", doRestore})
	}
	return nil
}

// strays looks for rows outside the history.
func (c *checker) strays(ctx context.Context) error {
	found, err := queryAll(ctx, c.log.db, strayRows, scanStray, c.store.num)
	for _, s := range found {
		c.differs(finding.RowOutside, s.table, s.seq, "it is outside the history")
	}
	return err
}

// stray is a row that nothing explains.
type stray struct {
	table string
	seq   int64
}

func scanStray(row *sqlite.Row) (stray, error) {
	return stray{row.ColumnText(0), row.ColumnInt64(1)}, nil
}

// contents verifies the contents of no version.
func (c *checker) contents(ctx context.Context) error {
	blobs := c.log.Blobs(c.store.ID)
	if _, ok, err := blobs.ready(ctx, blobsFormat); err != nil || !ok {
		return err
	}
	keys := paged(pageRows, func(last *cas.Digest, room []cas.Digest) ([]cas.Digest, error) {
		after := []byte{}
		if last != nil {
			after = last[:]
		}
		return queryInto(ctx, room, c.log.db, blobKeysAfter(pageRows), scanDigest, c.store.num, after)
	})
	for d, err := range keys {
		if err != nil {
			return err
		}
		if _, needed := c.digests[d]; needed {
			continue
		}
		if _, err := blobs.Get(ctx, d); errors.Is(err, cas.ErrCorrupt) {
			what := "the bytes are damaged; no version needs them"
			if !c.whole {
				what = "the bytes are damaged; no version of the records that can be read needs them"
			}
			c.report(Problem{finding.BlobUnneeded, "blob " + d.String(), what, "the next write of these bytes puts them right; find out which program has changed log.db"})
		} else if err != nil && !errors.Is(err, cas.ErrNotFound) {
			return err
		}
	}
	return nil
}

// blobKeysAfter reads so many keys above one. The others are no digests, of which
// CheckDatabase tells.
func blobKeysAfter(limit int) string {
	return `SELECT sha256 FROM blobs WHERE store = ? AND sha256 > ? AND length(sha256) = 32 ORDER BY sha256 LIMIT ` + strconv.Itoa(limit)
}

// reading calls do in a transaction that reads, and again when the database is busy.
func (c *checker) reading(ctx context.Context, do func(*sqlite.Conn) error) error {
	return retryBusy(ctx, func() error {
		return translate(c.log.db.With(ctx, func(conn *sqlite.Conn) error {
			return conn.Reading(func() error { return do(conn) })
		}))
	})
}
