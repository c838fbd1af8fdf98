// Package sqlite keeps SQLite databases with a write-ahead log, as mneme's
// embedded log is one: durable with one sync per transaction, private to the
// user, and with as few system calls as that takes. It is the library's
// connections with prepared statements, a pool of them, and a layer below SQLite
// that writes a transaction to the write-ahead log at once.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"

	"mneme/internal/safepath"
)

// KeptWriteAhead is how many bytes of the write-ahead log stay on disk after a
// transaction that made it larger.
const KeptWriteAhead = 32 << 20

// pageCache is how much of the database each connection keeps in memory, in KiB.
const pageCache = 512

// spillFrom is how many pages a transaction changes, at least, before some of them are written to make
// room for others. Written early they are read again, and written again: a commit of some thousand
// versions took half as long again.
const spillFrom = 4096

// settings hold for every connection. Deleted data is overwritten with zeroes, so that it
// cannot be found in free pages. SQLite does not wait for locks, since its own waiting
// cannot be interrupted.
var settings = fmt.Sprintf(`%s; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = %d; PRAGMA cache_spill = %d`,
	synchronous, KeptWriteAhead, spillFrom)

// synchronous makes every transaction durable.
const synchronous = `PRAGMA synchronous = FULL`

// Row is a row that a statement has come to. Columns count from 0; the memory of
// raw ones is SQLite's, until the statement goes on.
type Row = sqlite3.Stmt

// IsNull reports whether a row has NULL in a column.
func IsNull(row *Row, column int) bool { return row.ColumnType(column) == sqlite3.NULL }

// DB is a database, with connections that are kept for the next who needs one. It
// may be used from many goroutines.
type DB struct {
	path     string
	readOnly bool
	room     chan struct{}           // a token for each connection that With has in use
	mu       sync.Mutex              // guards idle and made
	idle     []*Conn                 // the last is the one that was used last, whose memory the processor's caches have
	made     int                     // how many times Renew was called
	index    atomic.Pointer[os.File] // of the write-ahead log; nil until it is used
	rewrite  func(text string) string
	pages    int // KiB of each connection
}

// New returns the database at path, of which With uses so many connections at
// once. The file is not touched before the first is opened.
func New(path string, readOnly bool, connections int) *DB {
	return &DB{path: path, readOnly: readOnly, room: make(chan struct{}, connections), pages: pageCache}
}

// SetPageCache has each connection keep so much of the database in memory, in KiB, in place of 512. It is
// called before the first connection is opened.
func (db *DB) SetPageCache(kib int) { db.pages = kib }

// Rewrite has each statement rewritten before it is prepared. It is called before the
// first connection is opened.
func (db *DB) Rewrite(rewrite func(text string) string) { db.rewrite = rewrite }

// Open opens a connection that is the caller's to close. Neither the database nor a
// file beside it may be a link, nor as root one that others may write to
// (safepath.ErrUntrusted); the directory is the caller's to check.
func (db *DB) Open() (*Conn, error) {
	for _, suffix := range []string{"", WriteAheadSuffix, indexSuffix, "-journal"} {
		if err := safepath.CheckRegular(db.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	name := url.URL{Scheme: "file", Path: db.path, RawQuery: "vfs=" + layerName}
	db.mu.Lock()
	made := db.made
	db.mu.Unlock()
	flags := sqlite3.OPEN_URI | sqlite3.OPEN_READWRITE | sqlite3.OPEN_CREATE
	if db.readOnly {
		flags = sqlite3.OPEN_URI | sqlite3.OPEN_READONLY
	}
	lib, err := sqlite3.OpenFlags(name.String(), flags)
	if err != nil {
		return nil, err
	}
	c := &Conn{lib: lib, statements: map[string]*sqlite3.Stmt{}, rewrite: db.rewrite, made: made}
	c.main, _ = vfsutil.UnwrapFile[*mainFile](lib.Filename("main").DatabaseFile())
	for _, foreign := range []sqlite3.DBConfig{sqlite3.DBCONFIG_ENABLE_TRIGGER, sqlite3.DBCONFIG_ENABLE_VIEW} {
		if _, err := lib.Config(foreign, false); err != nil { // a process that can write the file must not make this one act
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.Script(fmt.Sprintf(`PRAGMA cache_size = -%d; `, db.pages) + settings); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// OpenMemory opens a connection to an empty database that is in no file. It is the
// caller's to close.
func OpenMemory() (*Conn, error) {
	lib, err := sqlite3.Open(":memory:")
	if err != nil {
		return nil, err
	}
	return &Conn{lib: lib, statements: map[string]*sqlite3.Stmt{}, main: &mainFile{}}, nil
}

// With calls do with a connection. It waits for one as long as ctx allows.
func (db *DB) With(ctx context.Context, do func(*Conn) error) error {
	select {
	case db.room <- struct{}{}:
		defer func() { <-db.room }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c := db.lastUsed()
	if c == nil {
		var err error
		if c, err = db.Open(); err != nil {
			return err
		}
	}
	defer func() {
		if c.main.ahead != nil && db.index.Load() == nil {
			db.openIndex(c)
		}
		if c.lib.GetAutocommit() {
			db.keep(c)
		} else { // a transaction that cannot be ended
			_ = c.Close()
		}
	}()
	return do(c)
}

// lastUsed returns the idle connection that was used last; nil is none.
func (db *DB) lastUsed() (c *Conn) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if n := len(db.idle); n > 0 {
		c, db.idle = db.idle[n-1], db.idle[:n-1]
	}
	return c
}

// keep keeps a connection for the next who needs one, unless Renew was called since it was opened.
func (db *DB) keep(c *Conn) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if c.made == db.made {
		db.idle = append(db.idle, c)
	} else {
		_ = c.Close()
	}
}

// Renew closes the connections that With has kept, and has it keep none of those that are in use:
// a connection has pages that it has read in its memory, also those that were erased since.
func (db *DB) Renew() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.made++
	return db.closeIdleLocked()
}

func (db *DB) closeIdleLocked() error {
	var errs []error
	for _, c := range db.idle {
		errs = append(errs, c.Close())
	}
	db.idle = nil
	return errors.Join(errs...)
}

// Close closes the connections that With has kept. None may be in use.
func (db *DB) Close() error {
	var errs []error
	if index := db.index.Swap(nil); index != nil {
		errs = append(errs, index.Close())
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return errors.Join(append(errs, db.closeIdleLocked())...)
}
