package sqlitelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mneme/versionlog"
)

const storeColumns = `num, id, slug, name, description, max_bytes, content, created_at, archived_at, tip_seq, tip_digest, tip_time`

const versionColumns = `v.id, v.memory_id, v.parent, v.seq, v.op, v.path, v.from_path, v.sha256, v.size,
	c.actor_kind, c.actor_id, c.session, c.time, c.message`

const versionTables = `versions v JOIN commits c ON c.store = v.store AND c.seq = v.seq`

const pathTables = `paths p CROSS JOIN versions v ON v.store = p.store AND v.seq = p.seq AND v.ord = p.ord
	CROSS JOIN commits c ON c.store = p.store AND c.seq = p.seq`

// statements are the prepared reads, of the readers' pool or of the writer's
// connection.
type statements struct {
	storeByID, storeBySlug, stores *sql.Stmt
	tipSeq                         *sql.Stmt
	head, last                     *sql.Stmt
	below, children, child         *sql.Stmt
	version, newest, history       *sql.Stmt
	commitByKey, commits           *sql.Stmt

	all []*sql.Stmt
}

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func prepareStatements(ctx context.Context, db preparer) (*statements, error) {
	s := &statements{}
	var err error
	const below = `SELECT ` + versionColumns + ` FROM ` + pathTables +
		` WHERE p.store = ? AND p.path > ? AND p.path < ? AND p.live = 1 ORDER BY p.path LIMIT `
	// Limits are written out: SQLite plans a statement with LIMIT ? again every
	// time it runs, which takes as long as the rest of a commit.
	s.all, err = prepare(ctx, db, []query{
		{&s.storeByID, `SELECT ` + storeColumns + ` FROM stores WHERE id = ?`},
		{&s.storeBySlug, `SELECT ` + storeColumns + ` FROM stores WHERE slug = ?`},
		{&s.tipSeq, `SELECT tip_seq FROM stores WHERE id = ?`},
		{&s.stores, `SELECT ` + storeColumns + ` FROM stores ORDER BY slug`},
		{&s.head, `SELECT ` + versionColumns + ` FROM ` + pathTables + ` WHERE p.store = ? AND p.path = ? AND p.live = 1`},
		{&s.last, `SELECT ` + versionColumns + ` FROM ` + pathTables + ` WHERE p.store = ? AND p.path = ?`},
		{&s.below, below + strconv.Itoa(pageRows)},
		{&s.children, below + strconv.Itoa(pageNames)},
		{&s.child, below + `1`},
		{&s.version, `SELECT ` + versionColumns + ` FROM ` + versionTables + ` WHERE v.store = ? AND v.seq = ? AND v.ord = ? AND v.id = ?`},
		{&s.newest, `SELECT ` + versionColumns + ` FROM ` + versionTables +
			` WHERE v.store = ? AND v.memory_id = ? ORDER BY v.seq DESC LIMIT 1`},
		{&s.history, `SELECT ` + versionColumns + ` FROM ` + versionTables +
			` WHERE v.store = ? AND v.memory_id = ? AND v.seq < ? ORDER BY v.seq DESC LIMIT ` + strconv.Itoa(pageRows)},
		{&s.commitByKey, `SELECT record FROM commits WHERE store = ? AND key = ?`},
		{&s.commits, `SELECT record FROM commits WHERE store = ? AND seq > ? ORDER BY seq LIMIT ` + strconv.Itoa(pageRecords)},
	})
	return s, err
}

func (s *statements) close() error { return closeAll(s.all) }

// query is a statement to prepare, and where to put it.
type query struct {
	stmt **sql.Stmt
	text string
}

func prepare(ctx context.Context, db preparer, queries []query) ([]*sql.Stmt, error) {
	var all []*sql.Stmt
	for _, q := range queries {
		stmt, err := db.PrepareContext(ctx, q.text)
		if err != nil {
			return nil, errors.Join(translate(err), closeAll(all))
		}
		*q.stmt = stmt
		all = append(all, stmt)
	}
	return all, nil
}

func closeAll(all []*sql.Stmt) error {
	var errs []error
	for _, stmt := range all {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// storeRow is a row of the table stores.
type storeRow struct {
	versionlog.Store
	num int64
	tip versionlog.Tip
}

type scanner interface{ Scan(dest ...any) error }

func scanStore(row scanner) (storeRow, error) {
	var s storeRow
	var created, archived, tipTime sql.NullInt64
	var digest []byte
	err := row.Scan(&s.num, &s.ID, &s.Slug, &s.Name, &s.Description, &s.Limits.MaxMemoryBytes, &s.Limits.Content,
		&created, &archived, &s.tip.Seq, &digest, &tipTime)
	if err != nil {
		return s, err
	}
	s.CreatedAt, s.ArchivedAt, s.tip.Time = timeOf(created), timeOf(archived), timeOf(tipTime)
	s.tip.Digest, err = digestOf(digest)
	return s, err
}

func scanSeq(row scanner) (seq uint64, err error) {
	err = row.Scan(&seq)
	return seq, err
}

func scanVersion(row scanner) (versionlog.Version, error) {
	var v versionlog.Version
	var digest []byte
	var micros int64
	err := row.Scan(&v.ID, &v.MemoryID, &v.Parent, &v.Seq, &v.Op, &v.Path, &v.From, &digest, &v.Size,
		&v.Actor.Kind, &v.Actor.ID, &v.Session, &micros, &v.Message)
	if err != nil {
		return v, err
	}
	v.Time = time.UnixMicro(micros).UTC()
	v.Digest, err = digestOf(digest)
	return v, err
}

func scanRecord(row scanner) (*versionlog.Commit, error) {
	var record []byte
	if err := row.Scan(&record); err != nil {
		return nil, err
	}
	return versionlog.DecodeRecord(record)
}

// digestOf and blobOf: NULL stands for the zero digest.
func digestOf(blob []byte) (versionlog.Digest, error) {
	if blob == nil {
		return versionlog.Digest{}, nil
	}
	if len(blob) != len(versionlog.Digest{}) {
		return versionlog.Digest{}, fmt.Errorf("%w: a digest of %d bytes", versionlog.ErrCorrupt, len(blob))
	}
	return versionlog.Digest(blob), nil
}

func blobOf(d versionlog.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// timeOf and microsOf: NULL stands for the zero time.
func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

func microsOf(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}
