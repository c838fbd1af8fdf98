package sqlite

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// Conn is a connection to a database, for one goroutine at a time.
type Conn struct {
	lib        *sqlite3.Conn
	statements map[string]*sqlite3.Stmt // prepared, by their text
	main       *mainFile
	made       int                      // DB.made as it was opened
	rewrite    func(text string) string // nil: statements are as they are given
	unsynced   bool                     // see Unsynced
	lax        bool                     // transactions are perhaps not synced
}

// Close closes the connection.
func (c *Conn) Close() error {
	var errs []error
	for _, stmt := range c.statements {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.lib.Close())...)
}

// Script runs statements that are not worth keeping.
func (c *Conn) Script(text string) error { return c.lib.Exec(text) }

// Run runs a statement that yields no rows.
func (c *Conn) Run(text string, args ...any) error {
	stmt, err := c.bound(text, args)
	if err != nil {
		return err
	}
	return stmt.Exec()
}

// Each runs a statement and calls row with every row it yields, until that fails.
func (c *Conn) Each(text string, row func(*Row) error, args ...any) (err error) {
	stmt, err := c.bound(text, args)
	if err != nil {
		return err
	}
	defer func() {
		if e := stmt.Reset(); err == nil {
			err = e
		}
	}()
	for stmt.Step() {
		if err := row(stmt); err != nil {
			return err
		}
		if err := stmt.Err(); err != nil { // of reading a column
			return err
		}
	}
	return stmt.Err()
}

// bound returns the statement of a text, which is prepared once, with its
// arguments: integers, strings, byte slices, and nil for NULL. An argument that
// is a nil slice is NULL, too.
func (c *Conn) bound(text string, args []any) (*sqlite3.Stmt, error) {
	stmt := c.statements[text]
	if stmt == nil {
		var err error
		prepared := text
		if c.rewrite != nil {
			prepared = c.rewrite(text)
		}
		if stmt, _, err = c.lib.Prepare(prepared); err != nil {
			return nil, err
		}
		c.statements[text] = stmt
	}
	for i, arg := range args {
		var err error
		switch arg := arg.(type) {
		case nil:
			err = stmt.BindNull(i + 1)
		case int:
			err = stmt.BindInt(i+1, arg)
		case int64:
			err = stmt.BindInt64(i+1, arg)
		case string:
			err = stmt.BindText(i+1, arg)
		case []byte:
			err = stmt.BindBlob(i+1, arg)
		default:
			err = fmt.Errorf("argument %d of %q is a %T", i+1, text, arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return stmt, nil
}

// Reading calls do within a transaction that reads: all it sees is of one moment.
func (c *Conn) Reading(do func() error) error {
	if err := c.Run(`BEGIN`); err != nil {
		return err
	}
	return errors.Join(do(), c.Run(`ROLLBACK`))
}

// Begin begins a transaction that writes.
func (c *Conn) Begin() error {
	if c.lax && !c.unsynced {
		if err := c.strict(); err != nil {
			return err
		}
	}
	return c.Run(`BEGIN IMMEDIATE`)
}

// Commit makes the transaction durable. If it fails, the caller must roll the transaction
// back.
func (c *Conn) Commit() error {
	if c.main.ahead == nil || c.unsynced {
		return c.Run(`COMMIT`)
	}
	ahead := c.main.ahead
	ahead.gathering = true
	err := c.Run(`COMMIT`)
	ahead.gathering = false
	ahead.drop() // if it failed, nothing of it counts, and another process may write there already
	return err
}

// Rollback undoes the transaction, if there is still one.
func (c *Conn) Rollback() error {
	if !c.InTransaction() {
		return nil
	}
	return c.Run(`ROLLBACK`)
}

// InTransaction reports whether a transaction is under way: after some errors SQLite has rolled
// back by itself.
func (c *Conn) InTransaction() bool { return !c.lib.GetAutocommit() }

// Nested calls do within a transaction. If do fails, only what it has done is undone; if that
// cannot be, the transaction is.
func (c *Conn) Nested(do func() error) error {
	if err := c.Run(`SAVEPOINT nested`); err != nil {
		return err
	}
	err := do()
	if err == nil {
		return c.Run(`RELEASE nested`)
	}
	if c.InTransaction() && (c.Run(`ROLLBACK TO nested`) != nil || c.Run(`RELEASE nested`) != nil) {
		_ = c.Rollback()
	}
	return err
}

// Unsynced calls do, whose transactions are not synced: after a power cut they may be
// missing, never without those that came after them. The next one that is synced makes
// them durable, too.
func (c *Conn) Unsynced(do func() error) error {
	c.lax = true
	if err := c.Run(`PRAGMA synchronous = NORMAL`); err != nil {
		return errors.Join(err, c.strict())
	}
	c.unsynced = true // gathering ends with a sync
	err := do()
	c.unsynced = false
	return errors.Join(err, c.strict())
}

// strict has transactions synced again.
func (c *Conn) strict() error {
	err := c.Run(synchronous)
	c.lax = c.lax && err != nil
	return err
}
