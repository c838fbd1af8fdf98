package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mneme/finding"
	"mneme/internal/quote"
	"mneme/internal/sqlite"
)

// CheckDatabase compares what all stores share with what it should be, and calls
// report for each difference: the definitions in the database with those of its
// format, the indexes with the rows, and the stores that rows belong to with those
// that there are. It changes nothing. An error says that the database could not be
// read.
func (l *Log) CheckDatabase(ctx context.Context, report func(Problem)) error {
	c := &databaseChecker{log: l, report: report}
	for _, step := range []func(context.Context) error{c.schema, c.indexes, c.blobIndex, c.owners, c.sequence, c.slugs} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("check %s: %w", DatabaseName, err)
		}
	}
	return nil
}

// databaseChecker is one run of CheckDatabase.
type databaseChecker struct {
	log    *Log
	report func(Problem)
	tables []string // of the database's format
}

const (
	doDrop = "mneme runs no code of a database and looks at nothing else in it, but other programs do: find out which one made this, and remove it"
	doMake = "go back to a backup of log.db, or have SQLite's own shell make it anew while nothing else has log.db open; right is: "
)

// object is a row of sqlite_schema.
type object struct{ kind, name, table, sql string }

func (o object) String() string { return o.kind + " " + o.name }

// foreign names an object that is none of mneme's.
func (o object) foreign() string {
	if !slices.Contains([]string{"table", "index", "view", "trigger"}, o.kind) {
		o.kind = "object"
	}
	return o.kind + " " + quote.Name(o.name)
}

// schema compares the definitions in the database with what the statements of its
// format make.
func (c *databaseChecker) schema(ctx context.Context) error {
	var format int
	var found []object
	err := retryBusy(ctx, func() error {
		return translate(c.log.db.With(ctx, func(conn *sqlite.Conn) error {
			return conn.Reading(func() (err error) {
				if format, err = readFormat(conn, c.log.root.Name()); err == nil {
					found, err = objectsIn(conn)
				}
				return err
			})
		}))
	})
	if err != nil {
		return err
	}
	right, err := objectsOf(format)
	if err != nil {
		return err
	}
	missing := map[string]object{}
	for _, o := range right {
		missing[o.String()] = o
		if o.kind == "table" {
			c.tables = append(c.tables, o.name)
		}
	}
	for _, o := range found {
		want, known := missing[o.String()]
		delete(missing, o.String())
		switch {
		case !known:
			c.report(Problem{finding.SchemaForeign, o.foreign(), fmt.Sprintf("it is none of schema format %d", format), doDrop})
		case o != want && o != want.plain():
			c.report(Problem{finding.SchemaOther, o.String(), fmt.Sprintf("it is not defined as in schema format %d", format), doMake + want.plain().sql})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		if missing[key].sql == "" { // SQLite makes it with its table
			continue
		}
		c.report(Problem{finding.SchemaMissing, key, "it is missing", doMake + missing[key].plain().sql})
	}
	return nil
}

// objectsIn returns all that is defined in a database.
func objectsIn(conn *sqlite.Conn) (all []object, err error) {
	err = conn.Each(`SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema`, func(row *sqlite.Row) error {
		all = append(all, object{row.ColumnText(0), row.ColumnText(1), row.ColumnText(2), row.ColumnText(3)})
		return nil
	})
	return all, err
}

// definitions are what objectsOf has found, by format. Making a database takes a third of the
// time in which a small one is checked.
var definitions sync.Map

// objectsOf returns all that is defined in a database of a format.
func objectsOf(format int) (all []object, err error) {
	if known, ok := definitions.Load(format); ok {
		return known.([]object), nil
	}
	conn, err := sqlite.OpenMemory()
	if err != nil {
		return nil, err
	}
	for _, schema := range schemas[:format] {
		if err = conn.Script(schema); err != nil {
			break
		}
	}
	if err == nil {
		all, err = objectsIn(conn)
	}
	if err = errors.Join(err, conn.Close()); err == nil {
		definitions.Store(format, all)
	}
	return all, err
}

// plain is an object made by a statement on one line and without comments, as
// advice has it.
func (o object) plain() object {
	var words []string
	for line := range strings.Lines(o.sql) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.Fields(code)...)
	}
	o.sql = strings.Join(words, " ")
	return o
}

// indexes makes SQLite compare the indexes with the rows, except those of the table blobs, all of
// which it would read for that.
func (c *databaseChecker) indexes(ctx context.Context) error {
	for _, table := range c.tables {
		if table == blobsTable || strings.HasPrefix(table, "sqlite_") {
			continue
		}
		found, err := queryAll(ctx, c.log.db, `PRAGMA integrity_check('`+table+`')`, func(row *sqlite.Row) (string, error) {
			return row.ColumnText(0), nil
		})
		if err != nil {
			return err
		}
		for _, what := range found {
			if what != "ok" {
				c.report(Problem{finding.SQLiteIndex, "table " + table, what, doRestore})
			}
		}
	}
	return nil
}

const (
	blobsTable = "blobs"

	// blobsNotIndexed counts the rows that cannot be found by their keys, and
	// blobsIndexed what the index has more than the table. No contents are read.
	blobsNotIndexed = `SELECT count(*) FROM blobs b NOT INDEXED WHERE NOT EXISTS (SELECT 1 FROM blobs i INDEXED BY sqlite_autoindex_blobs_1
		WHERE i.store = b.store AND i.sha256 = b.sha256 AND i.rowid = b.rowid)`
	blobsIndexed = `SELECT count(*) FROM blobs i INDEXED BY sqlite_autoindex_blobs_1 WHERE i.store >= -9223372036854775808
		AND NOT EXISTS (SELECT 1 FROM blobs b NOT INDEXED WHERE b.rowid = i.rowid)`
	blobsMisnamed = `SELECT count(*) FROM blobs WHERE length(sha256) <> 32`
)

// blobIndex compares the index of the table blobs with its rows. The bytes in the rows are
// verified with the versions that need them, and by Check.
func (c *databaseChecker) blobIndex(ctx context.Context) error {
	if !slices.Contains(c.tables, blobsTable) {
		return nil
	}
	for _, count := range []struct {
		kind        finding.Kind
		query, what string
	}{
		{finding.BlobIndex, blobsNotIndexed, "rows that are not in its index, so that nobody finds them: %d"},
		{finding.BlobIndex, blobsIndexed, "rows of its index that are not there: %d"},
		{finding.BlobKey, blobsMisnamed, "rows with a key that is no SHA-256: %d"},
	} {
		n, err := queryOne(ctx, c.log.db, count.query, func(row *sqlite.Row) (int64, error) { return row.ColumnInt64(0), nil })
		if err != nil {
			return err
		}
		if n > 0 {
			c.report(Problem{count.kind, "table " + blobsTable, fmt.Sprintf(count.what, n), "go back to a backup of log.db"})
		}
	}
	return nil
}

const (
	doNever   = "a store to come would take them for its own: go back to a backup of log.db"
	doNumbers = "a store to come would take the number of one that was there: go back to a backup of log.db"
	doGone    = "they go by themselves if it is being deleted now; where that was interrupted, delete that store again by its id, or any other"
)

// owners looks for rows of stores that there are not.
func (c *databaseChecker) owners(ctx context.Context) error {
	type owned struct {
		store, rows int64
		gone        bool // the store was there once
	}
	for _, t := range leftTables {
		if !slices.Contains(c.tables, t.name) {
			continue
		}
		found, err := queryAll(ctx, c.log.db, t.leftOf(), func(row *sqlite.Row) (owned, error) {
			return owned{row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt(2) != 0}, nil
		})
		if err != nil {
			return err
		}
		for _, o := range found {
			p := Problem{finding.RowsOfNoStore, "table " + t.name, fmt.Sprintf("rows of a store that never was, number %d: %d", o.store, o.rows), doNever}
			if o.gone {
				p.Finding, p.What, p.Do = finding.RowsOfGoneStore, fmt.Sprintf("rows of a store that was deleted, number %d: %d", o.store, o.rows), doGone
			}
			c.report(p)
		}
	}
	return nil
}

// leftOf returns every store that is gone, or never was, and has rows in the table,
// how many, and whether its number was given.
func (t leftTable) leftOf() string {
	return t.numbers() + ` SELECT num, (SELECT count(*) FROM ` + t.name + ` WHERE store = num),
			num BETWEEN 1 AND coalesce((` + highestNumber + `), 0)
		FROM s WHERE num IS NOT NULL AND num NOT IN (SELECT num FROM stores)`
}

// sequence makes sure that no number is given to two stores: it was given to all that
// there are.
func (c *databaseChecker) sequence(ctx context.Context) error {
	const query = `SELECT (SELECT count(*) FROM sqlite_sequence WHERE name = 'stores'), (SELECT count(*) FROM sqlite_sequence),
		coalesce((` + highestNumber + `), 0) >= coalesce((SELECT max(num) FROM stores), 0), EXISTS (SELECT 1 FROM stores)`
	type found struct{ known, all, enough, any int64 }
	f, err := queryOne(ctx, c.log.db, query, func(row *sqlite.Row) (found, error) {
		return found{row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt64(2), row.ColumnInt64(3)}, nil
	})
	if err == nil && (f.known > 1 || f.all > f.known || f.enough == 0 || f.known < f.any) {
		c.report(Problem{finding.StoreNumbers, "table sqlite_sequence", "it does not say which numbers stores have had", doNumbers})
	}
	return err
}

// slugs looks for stores that no list has.
func (c *databaseChecker) slugs(ctx context.Context) error {
	found, err := queryAll(ctx, c.log.db, `SELECT id FROM stores WHERE slug = ''`, func(row *sqlite.Row) (string, error) { return row.ColumnText(0), nil })
	for _, id := range found {
		c.report(Problem{finding.StoreSlug, "row stores " + id, "it has no slug, so that no list of stores has it", "go back to a backup of log.db"})
	}
	return err
}
