package harness

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	_ "github.com/ncruces/go-sqlite3/driver" // as sqlite3

	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/cas/sizecas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/sqlitelog"
)

// database opens the embedded store's database behind mneme's back.
func (e *Env) database(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(e.Stores, "log.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(`PRAGMA busy_timeout = 10000`); err != nil {
		t.Fatal(err)
	}
	return db
}

// EmbeddedBlobs reads every content that the embedded store has, by SHA-256, as
// docs/FORMAT.md says: the large ones from their files, the others from the database.
func (e *Env) EmbeddedBlobs(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(sum, data string) {
		if got := SumOf(data); got != sum {
			t.Errorf("blob %s holds something else, of %d bytes", sum, len(data))
		}
		found[sum] = data
	}
	// First, since they may move to the database meanwhile.
	files, err := filepath.Glob(filepath.Join(e.Stores, "stores", "*", "blobs", "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), ".") {
			continue
		}
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		add(filepath.Base(file), string(data))
	}
	db := e.database(t)
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	eachRow(t, tx, `SELECT sha256, data FROM blobs`, func(rows *sql.Rows) error {
		var sum, data []byte
		err := rows.Scan(&sum, &data)
		add(hex.EncodeToString(sum), string(data))
		return err
	})
	for sum, data := range unpacked(t, tx, found) {
		add(sum, data)
	}
	return found
}

func eachRow(t testing.TB, tx *sql.Tx, query string, row func(*sql.Rows) error) {
	t.Helper()
	rows, err := tx.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// unpacked returns what the table packed has, given what is whole.
func unpacked(t testing.TB, tx *sql.Tx, whole map[string]string) map[string]string {
	t.Helper()
	type packed struct {
		sum  string
		base sql.NullInt64
		data []byte
	}
	rows := map[int64]packed{}
	eachRow(t, tx, `SELECT id, sha256, base, data FROM packed`, func(r *sql.Rows) error {
		var id int64
		var sum []byte
		var p packed
		err := r.Scan(&id, &sum, &p.base, &p.data)
		p.sum = hex.EncodeToString(sum)
		rows[id] = p
		return err
	})
	var bytesOf func(id int64) []byte
	bytesOf = func(id int64) []byte {
		p := rows[id]
		if p.data == nil {
			return []byte(whole[p.sum])
		}
		var opts []zstd.DOption
		if p.base.Valid {
			opts = append(opts, zstd.WithDecoderDictRaw(0, bytesOf(p.base.Int64)))
		}
		d, err := zstd.NewReader(nil, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		data, err := d.DecodeAll(p.data, nil)
		if err != nil {
			t.Errorf("packed content %s: %v", p.sum, err)
		}
		return data
	}
	found := map[string]string{}
	for id, p := range rows {
		if p.data != nil {
			found[p.sum] = string(bytesOf(id))
		}
	}
	return found
}

// Spoil runs a statement that changes the row of one small blob, whose SHA-256
// is its ?.
func (e *Env) Spoil(t testing.TB, sum, statement string) {
	t.Helper()
	raw, err := hex.DecodeString(sum)
	if err != nil {
		t.Fatal(err)
	}
	db := e.database(t)
	defer db.Close()
	result, err := db.Exec(statement, raw)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// BlobFile finds the file that holds a blob: a large one of the embedded store,
// or any that a server of the test keeps.
func (e *Env) BlobFile(t testing.TB, sum string) string {
	t.Helper()
	var found string
	err := filepath.WalkDir(e.Stores, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, sum) || strings.HasSuffix(strings.ReplaceAll(path, "/", ""), sum) {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no file for blob %s: %v", sum, err)
	}
	return found
}

// Embedded is an embedded store opened without the command line.
type Embedded struct {
	*memory.Library
	log *sqlitelog.Log
}

// Close closes their log.
func (e *Embedded) Close() error { return e.log.Close() }

// OpenNamed opens a store by name, for writing.
func (e *Embedded) OpenNamed(ctx context.Context, name string) (*memory.Store, error) {
	info, err := e.FindStore(ctx, name)
	if err != nil {
		return nil, err
	}
	return e.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "steward"}})
}

// OpenEmbedded opens the embedded stores of a directory.
func OpenEmbedded(ctx context.Context, dir string) (*Embedded, error) {
	log, err := sqlitelog.Open(ctx, dir, nil)
	if err != nil {
		return nil, err
	}
	blobs := func(id string) (cas.Store, error) {
		files, err := dircas.Open(filepath.Join(dir, "stores", id, "blobs"), nil)
		return sizecas.New(log.Blobs(id), sqlitelog.MaxContent, files), err
	}
	return &Embedded{Library: memory.NewLibrary(log, blobs), log: log}, nil
}
