package barefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"mneme/internal/sqlite"
)

type digest [sha256.Size]byte

// database has the bytes in SQLite as mneme's embedded store does: its
// connections, the size of a batch and the two rows of a write that cannot be
// done without, in one transaction. Bytes are checked when they are read.
type database struct {
	db *sqlite.DB // for reading

	writing sync.Mutex // guards writer
	writer  *sqlite.Conn

	reading sync.Mutex // guards ahead
	ahead   *fetch     // nil when there is none
	work    sync.WaitGroup
}

var _ store = (*database)(nil)

// batchSize is how many blobs one transaction reads.
const batchSize = 32

const (
	schema = `
		PRAGMA journal_mode = WAL;
		CREATE TABLE blobs (sha256 BLOB PRIMARY KEY, data BLOB NOT NULL) STRICT;
		CREATE TABLE names (name TEXT PRIMARY KEY, version INTEGER NOT NULL, sha256 BLOB NOT NULL) STRICT, WITHOUT ROWID`
	addBlob  = `INSERT INTO blobs (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING`
	setName  = `INSERT INTO names (name, version, sha256) VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET version = version + 1, sha256 = excluded.sha256`
	readBlob = `SELECT data FROM blobs WHERE sha256 = ?`
)

// createDatabase makes a database at path.
func createDatabase(path string) (*database, error) {
	d := &database{db: sqlite.New(path, false, 4)}
	var err error
	if d.writer, err = d.db.Open(); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	if err := d.writer.Script(schema); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, errors.Join(err, d.close()))
	}
	return d, nil
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
	return d.writer.Script(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

func (d *database) keep(n *node) error { return d.write([]*node{n}) }

// write stores the data of files in one transaction.
func (d *database) write(files []*node) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	err := d.writer.Begin()
	for _, n := range files {
		if err == nil {
			err = d.put(n)
		}
	}
	if err == nil {
		err = d.writer.Commit()
	}
	if err != nil {
		return fmt.Errorf("write: %w", errors.Join(err, d.writer.Rollback()))
	}
	return nil
}

func (d *database) put(n *node) error {
	data := n.data
	if data == nil {
		data = []byte{} // nil is NULL
	}
	sum := sha256.Sum256(data)
	if err := d.writer.Run(addBlob, sum[:], data); err != nil {
		return err
	}
	return d.writer.Run(setName, n.path, sum[:])
}

// readBatch adds the blobs of files to found, but for damaged ones.
func (d *database) readBatch(files []*node, found map[digest][]byte) error {
	return d.db.With(context.Background(), func(c *sqlite.Conn) error {
		return c.Reading(func() error {
			for _, n := range files {
				err := c.Each(readBlob, func(row *sqlite.Row) error {
					if data := row.ColumnBlob(0, nil); sha256.Sum256(data) == n.sum {
						found[n.sum] = data
					}
					return nil
				}, n.sum[:])
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (d *database) close() error {
	d.work.Wait()
	return errors.Join(d.writer.Close(), d.db.Close())
}
