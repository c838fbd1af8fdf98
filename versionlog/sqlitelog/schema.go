package sqlitelog

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mneme/internal/durable"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

const (
	// applicationID marks the database as a log of mneme: "mnem" in ASCII.
	applicationID = 0x6d6e656d
	// schemaFormat is the format of the tables, kept as user_version.
	schemaFormat = 7
	// blobsFormat is the first format that has the table blobs.
	blobsFormat = 2
	// quotasFormat is the first format that has quotas and totals of stores.
	quotasFormat = 4
	// eventsFormat is the first format in which stores have metadata and epochs, and
	// versions a spelling.
	eventsFormat = 5
	// policyFormat is the first format in which stores have a policy.
	policyFormat = 6
	// earlyFormat is the first format that has the table early.
	earlyFormat = 7
	// pastFormat is the first format that has an index of the versions that came to each path.
	pastFormat = 4
	// packedFormat is the first format that has the table packed.
	packedFormat = 5
)

//go:embed schema-v1.sql
var schemaV1 string

//go:embed schema-v2.sql
var schemaV2 string

//go:embed schema-v3.sql
var schemaV3 string

//go:embed schema-v4.sql
var schemaV4 string

//go:embed schema-v5.sql
var schemaV5 string

//go:embed schema-v6.sql
var schemaV6 string

//go:embed schema-v7.sql
var schemaV7 string

// schemas are what each format adds to the one before, from format 1 on.
var schemas = [schemaFormat]string{schemaV1, schemaV2, schemaV3, schemaV4, schemaV5, schemaV6, schemaV7}

// inFormat returns a statement as a database of a format understands it.
func inFormat(text string, format int) string {
	if format < eventsFormat {
		text = strings.ReplaceAll(text, spellingColumn, `''`)
	}
	if format < earlyFormat {
		text = strings.ReplaceAll(text, unlessEarly, ``)
	}
	return text
}

// inspect looks at a database without changing it and returns its format, 0 when there is nothing
// yet. The error says why it cannot be used as a log. also, unless it is nil, looks at more of a
// log.
func inspect(ctx context.Context, path string, also func(*sqlite.Conn) error) (int, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	var found int
	err := retryBusy(ctx, func() (err error) {
		found, err = formatIn(path, also)
		return err
	})
	if isCutOff(err) {
		// The machine stopped while the tables were made, or before the log had
		// its write-ahead log: nothing was ever stored. Making them again rolls
		// back what is there.
		return 0, nil
	}
	return found, err
}

// formatIn returns the format of the database at path.
func formatIn(path string, also func(*sqlite.Conn) error) (int, error) {
	conn, err := database(path, true).Open()
	if err != nil {
		return 0, translate(err)
	}
	found, err := readFormat(conn, filepath.Dir(path))
	if err == nil && found > 0 && also != nil {
		err = translate(also(conn))
	}
	return found, errors.Join(err, conn.Close())
}

func readFormat(conn *sqlite.Conn, dir string) (int, error) {
	var id, format, objects int
	err := conn.Each(`SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id a, pragma_user_version u`, func(row *sqlite.Row) error {
		id, format, objects = row.ColumnInt(0), row.ColumnInt(1), row.ColumnInt(2)
		return nil
	})
	if err != nil {
		return 0, translate(err)
	}
	switch {
	case id == 0 && format == 0 && objects == 0:
		return 0, nil
	case id != applicationID:
		return 0, fmt.Errorf("%s is an SQLite database of another program (application id %#x)", DatabaseName, id)
	case format > schemaFormat:
		return 0, fmt.Errorf("the log in %s has schema format %d, this mneme understands up to %d: %w; use a newer mneme",
			dir, format, schemaFormat, versionlog.ErrFormat)
	case format < 1:
		return 0, fmt.Errorf("%w: schema format %d", versionlog.ErrCorrupt, format)
	}
	return format, nil
}

// bringSchema makes an empty or missing file, or a log of an earlier format, a log of this one.
// Several processes may do so at once: the second one finds the tables there.
func bringSchema(ctx context.Context, path string) error {
	conn, err := connect(ctx, database(path, false))
	if err != nil {
		return err
	}
	err = bringIn(ctx, conn, filepath.Dir(path))
	if err = errors.Join(err, conn.Close()); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

func bringIn(ctx context.Context, conn *sqlite.Conn, dir string) error {
	// It says so to an empty file only: others keep their size when they hold less.
	if err := retryBusy(ctx, func() error { return translate(conn.Script(incremental)) }); err != nil {
		return err
	}
	if err := retryBusy(ctx, func() error { return translate(conn.Begin()) }); err != nil {
		return err
	}
	if err := addTables(conn, dir); err != nil {
		return errors.Join(err, conn.Rollback())
	}
	return retryBusy(ctx, func() error { return translate(conn.Commit()) })
}

func addTables(conn *sqlite.Conn, dir string) error {
	found, err := readFormat(conn, dir)
	if err != nil || found == schemaFormat {
		return err
	}
	for _, schema := range schemas[found:] {
		if err := conn.Script(schema); err != nil {
			return translate(err)
		}
	}
	if err := conn.Run(countStores); err != nil {
		return translate(err)
	}
	return translate(conn.Script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaFormat)))
}
