package sqlitelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"mneme/versionlog"
)

// writer is the one connection of a Log that writes.
type writer struct {
	turn chan struct{} // holds a token while the connection is in use
	conn *sql.Conn
	read *statements

	begin, commit, rollback                    *sql.Stmt
	addCommit, addVersion, setPath, setTip     *sql.Stmt
	addStore, archive, dropPaths, dropVersions *sql.Stmt
	dropCommits, dropStore, dropBlobs          *sql.Stmt
	keepBlob, dropBlob                         *sql.Stmt

	all []*sql.Stmt
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	w := &writer{turn: make(chan struct{}, 1), conn: conn}
	err = retryBusy(ctx, func() error { return useWriteAheadLog(ctx, conn) })
	if err == nil {
		err = retryBusy(ctx, func() error { return w.prepare(ctx) })
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// connect takes a connection out of the pool.
func connect(ctx context.Context, db *sql.DB) (conn *sql.Conn, err error) {
	err = retryBusy(ctx, func() error {
		conn, err = db.Conn(ctx)
		return translate(err)
	})
	return conn, err
}

// useWriteAheadLog changes nothing when the database is in that mode already,
// in which it stays.
func useWriteAheadLog(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return translate(err)
	}
	if mode != "wal" {
		return fmt.Errorf("the file system lacks what a write-ahead log needs; the journal mode is %q", mode)
	}
	return nil
}

func (w *writer) prepare(ctx context.Context) (err error) {
	if w.read, err = prepareStatements(ctx, w.conn); err != nil {
		return err
	}
	w.all, err = prepare(ctx, w.conn, []query{
		{&w.begin, `BEGIN IMMEDIATE`},
		{&w.commit, `COMMIT`},
		{&w.rollback, `ROLLBACK`},
		{&w.addCommit, `INSERT INTO commits (store, seq, key, time, actor_kind, actor_id, session, message, record)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.addVersion, `INSERT INTO versions (store, seq, ord, id, memory_id, parent, op, path, from_path, sha256, size)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.setPath, `INSERT INTO paths (store, path, seq, ord, live) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET seq = excluded.seq, ord = excluded.ord, live = excluded.live`},
		{&w.setTip, `UPDATE stores SET tip_seq = ?, tip_digest = ?, tip_time = ? WHERE num = ?`},
		{&w.addStore, `INSERT INTO stores (id, slug, name, description, max_bytes, content, created_at, archived_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.archive, `UPDATE stores SET archived_at = coalesce(archived_at, ?) WHERE num = ?`},
		{&w.dropPaths, `DELETE FROM paths WHERE store = ?`},
		{&w.dropVersions, `DELETE FROM versions WHERE store = ?`},
		{&w.dropCommits, `DELETE FROM commits WHERE store = ?`},
		{&w.dropStore, `DELETE FROM stores WHERE num = ?`},
		{&w.dropBlobs, `DELETE FROM blobs WHERE store = ?`},
		{&w.dropBlob, `DELETE FROM blobs WHERE store = ? AND sha256 = ?`},
		// Rows that hold the right bytes are not written to.
		{&w.keepBlob, `INSERT INTO blobs (store, sha256, data) VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET data = excluded.data WHERE data <> excluded.data`},
	})
	if err != nil {
		return errors.Join(err, w.read.close())
	}
	return nil
}

// close gives the connection back. database/sql does not close the statements
// of a single connection with it, and SQLite keeps a connection with statements
// open.
func (w *writer) close() error {
	errs := []error{closeAll(w.all)}
	if w.read != nil {
		errs = append(errs, w.read.close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

// transaction calls fn within a write transaction and commits unless fn fails.
// It waits for its turn in this process and then for the other processes. The
// statements themselves are short and not interrupted by ctx; should ctx have
// ended by the time fn returns, nothing is committed.
func (w *writer) transaction(ctx context.Context, fn func(context.Context) error) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	uninterrupted := context.WithoutCancel(ctx)
	if err := retryBusy(ctx, func() error { return run(uninterrupted, w.begin) }); err != nil {
		return err
	}
	err := fn(uninterrupted)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = run(uninterrupted, w.commit)
	}
	if err != nil {
		// After some errors SQLite has rolled back already and refuses to.
		_ = run(uninterrupted, w.rollback)
	}
	return err
}

// emptyWriteAhead carries the write-ahead log over into the database and cuts it
// to nothing, if nobody reads from it. The store is deleted whatever comes of
// it.
func (w *writer) emptyWriteAhead(ctx context.Context) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return
	}
	_, _ = w.conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA wal_checkpoint(TRUNCATE)`)
}

func run(ctx context.Context, stmt *sql.Stmt, args ...any) error {
	_, err := stmt.ExecContext(ctx, args...)
	return translate(err)
}

// Commit appends what p proposes. It costs one sync of the write-ahead log.
func (l *Log) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if l.writer == nil {
		return nil, versionlog.ErrReadOnly
	}
	var c *versionlog.Commit
	var appended bool
	err := l.writer.transaction(ctx, func(ctx context.Context) (err error) {
		c, appended, err = l.propose(ctx, storeID, p)
		return err
	})
	if err != nil {
		return nil, err // the caller knows the store by a better name than its id
	}
	if appended {
		l.recent.add(c)
		l.changes.touch()
	}
	return c, nil
}

// errKeyUsed says that the history has a commit of a key already.
var errKeyUsed = errors.New("there is a commit of that key")

// propose judges p within a transaction and says whether it became a commit.
// That p is in the history already shows in what it would become: a commit of
// the same key, or none.
func (l *Log) propose(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, bool, error) {
	w := l.writer
	s, err := queryOne(ctx, w.read.storeByID, scanStore, storeID)
	if err != nil {
		return nil, false, err
	}
	c, err := versionlog.Build(&view{ctx: ctx, read: w.read, store: s.num}, s.Store, s.tip, p, l.now())
	if err == nil {
		if err := w.keepContents(ctx, s.num, p.Changes); err != nil {
			return nil, false, err
		}
	}
	if err == nil && len(c.Versions) > 0 {
		if err = w.insert(ctx, s.num, c); !errors.Is(err, errKeyUsed) {
			return c, true, err
		}
	}
	earlier, keyErr := queryOne(ctx, w.read.commitByKey, scanRecord, s.num, p.Key)
	if !errors.Is(keyErr, versionlog.ErrNotFound) {
		return earlier, false, keyErr
	}
	return c, false, err
}

// keepContents stores the contents that come with changes, also of those that
// are the case already: the bytes may be damaged.
func (w *writer) keepContents(ctx context.Context, store int64, changes []versionlog.Change) error {
	for i := range changes {
		if c := &changes[i]; c.Content != nil {
			if err := w.keep(ctx, store, c.Digest, c.Content); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep stores a blob, over a damaged copy too.
func (w *writer) keep(ctx context.Context, store int64, d versionlog.Digest, data []byte) error {
	return run(ctx, w.keepBlob, store, d[:], data)
}

func (w *writer) insert(ctx context.Context, store int64, c *versionlog.Commit) error {
	record, err := versionlog.EncodeRecord(c)
	if err != nil {
		return err
	}
	seq, micros := int64(c.Seq), c.Time.UnixMicro()
	// First: nothing of c is in when it turns out to be in already.
	err = run(ctx, w.addCommit, store, seq, c.Key, micros, string(c.Actor.Kind), c.Actor.ID, c.Session, c.Message, record)
	if isConstraint(err) {
		return fmt.Errorf("%w: %w", errKeyUsed, err)
	}
	if err != nil {
		return err
	}
	for i := range c.Versions {
		if err := w.insertVersion(ctx, store, i, &c.Versions[i]); err != nil {
			return err
		}
	}
	return run(ctx, w.setTip, seq, blobOf(c.Digest), micros, store)
}

func (w *writer) insertVersion(ctx context.Context, store int64, ordinal int, v *versionlog.Version) error {
	seq := int64(v.Seq)
	err := run(ctx, w.addVersion, store, seq, ordinal, v.ID, v.MemoryID, v.Parent, string(v.Op), v.Path, v.From, blobOf(v.Digest), v.Size)
	if err != nil {
		return err
	}
	if v.Op == versionlog.OpRenamed {
		if err := run(ctx, w.setPath, store, v.From, seq, ordinal, 0); err != nil {
			return err
		}
	}
	live := 0
	if v.Live() {
		live = 1
	}
	return run(ctx, w.setPath, store, v.Path, seq, ordinal, live)
}

// view is what Build sees of a store, within the write transaction.
type view struct {
	ctx   context.Context // of the one call that the view serves
	read  *statements
	store int64
}

func (v *view) Head(path string) (*versionlog.Version, error) {
	return v.one(v.read.head, path)
}

func (v *view) Newest(memoryID string) (*versionlog.Version, error) {
	return v.one(v.read.newest, memoryID)
}

func (v *view) one(stmt *sql.Stmt, of string) (*versionlog.Version, error) {
	found, err := queryOne(v.ctx, stmt, scanVersion, v.store, of)
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

func (v *view) Below(path string) iter.Seq2[versionlog.Version, error] {
	return v.read.liveBelow(v.ctx, v.store, path)
}
