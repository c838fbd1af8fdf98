package sqlite

import (
	"context"
	"errors"
)

// CopyTo writes what is in the database as of one moment to a new database in the
// file path, without the free pages, where deleted rows may have been. Other
// connections read and write meanwhile. The file is not synced, and of no use
// after an error, which is that of ctx when ctx ended.
func (c *Conn) CopyTo(ctx context.Context, path string) error {
	before := c.lib.SetInterrupt(ctx)
	defer c.lib.SetInterrupt(before)
	err := c.Run(`VACUUM INTO ?`, path)
	if err != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// Size is the size in bytes of the database as the next transaction would read it.
func (c *Conn) Size() (n int64, err error) {
	err = c.Each(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`, func(row *Row) error {
		n = row.ColumnInt64(0)
		return nil
	})
	return n, err
}
