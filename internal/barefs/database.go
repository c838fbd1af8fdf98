package barefs

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the database/sql driver
)

type digest [sha256.Size]byte

// database has the bytes in SQLite as mneme's embedded store does: the driver,
// the pragmas, the size of a batch and the two rows of a write that cannot be
// done without, in one transaction. Bytes are checked when they are read.
type database struct {
	db    *sql.DB
	batch *sql.Stmt

	writing sync.Mutex // guards the connection that writes
	writer  *sql.Conn
	stmts   map[string]*sql.Stmt

	reading sync.Mutex // guards ahead
	ahead   *fetch     // nil when there is none
	work    sync.WaitGroup
}

var _ store = (*database)(nil)

// batchSize is how many blobs one statement reads.
const batchSize = 32

const (
	schema = `
		PRAGMA journal_mode = WAL;
		CREATE TABLE blobs (sha256 BLOB PRIMARY KEY, data BLOB NOT NULL) STRICT;
		CREATE TABLE names (name TEXT PRIMARY KEY, version INTEGER NOT NULL, sha256 BLOB NOT NULL) STRICT, WITHOUT ROWID`
	begin    = `BEGIN IMMEDIATE`
	addBlob  = `INSERT INTO blobs (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING`
	setName  = `INSERT INTO names (name, version, sha256) VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET version = version + 1, sha256 = excluded.sha256`
	commit   = `COMMIT`
	rollback = `ROLLBACK`
)

// createDatabase makes a database at path.
func createDatabase(path string) (*database, error) {
	query := url.Values{"_pragma": {
		"busy_timeout(0)", "cache_size(-512)", "synchronous(FULL)", "secure_delete(ON)", "journal_size_limit(33554432)",
	}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(5) // else most connections are opened again for every read
	d := &database{db: db, stmts: map[string]*sql.Stmt{}}
	if err := d.prepare(); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, errors.Join(err, d.close()))
	}
	return d, nil
}

func (d *database) prepare() error {
	ctx := context.Background()
	var err error
	if d.writer, err = d.db.Conn(ctx); err != nil {
		return err
	}
	if _, err := d.writer.ExecContext(ctx, schema); err != nil {
		return err
	}
	for _, text := range []string{begin, addBlob, setName, commit, rollback} {
		if d.stmts[text], err = d.writer.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	d.batch, err = d.db.Prepare(`SELECT sha256, data FROM blobs WHERE sha256 IN (?` + strings.Repeat(", ?", batchSize-1) + `)`)
	return err
}

// take puts the data of files into the database, and out of the write-ahead log
// into its file, where a mount of mneme finds what is not new.
func (d *database) take(files []*node) error {
	if err := d.write(files); err != nil {
		return err
	}
	for _, n := range files {
		n.sum, n.data = sha256.Sum256(n.data), nil
	}
	_, err := d.writer.ExecContext(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

func (d *database) keep(n *node) error { return d.write([]*node{n}) }

// write stores the data of files in one transaction.
func (d *database) write(files []*node) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	err := d.run(begin)
	for _, n := range files {
		if err == nil {
			err = d.put(n)
		}
	}
	if err == nil {
		err = d.run(commit)
	}
	if err != nil {
		return fmt.Errorf("write: %w", errors.Join(err, d.run(rollback)))
	}
	return nil
}

func (d *database) put(n *node) error {
	data := n.data
	if data == nil {
		data = []byte{} // nil is NULL
	}
	sum := sha256.Sum256(data)
	if err := d.run(addBlob, sum[:], data); err != nil {
		return err
	}
	return d.run(setName, n.path, sum[:])
}

func (d *database) run(text string, args ...any) error {
	_, err := d.stmts[text].Exec(args...)
	return err
}

func (d *database) close() error {
	d.work.Wait()
	var errs []error
	for _, stmt := range d.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	if d.batch != nil {
		errs = append(errs, d.batch.Close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.Close())
	}
	return errors.Join(append(errs, d.db.Close())...)
}
