package sqlitelog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestMakingCutOff: where the machine stopped while the tables were made, there
// is nothing for readers, and a writer makes them again.
func TestMakingCutOff(t *testing.T) {
	dir := cutOff(t)
	if _, err := Open(t.Context(), dir, &Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened for reading: %v, want that nothing is there", err)
	}
	l := openTest(t, dir, nil)
	s := addStore(t, l, "s")
	put(t, l, s.ID, "/a", "1")
	if _, err := os.Stat(filepath.Join(dir, DatabaseName+"-journal")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rollback journal is still there: %v", err)
	}
}

// cutOff returns a directory with a database in the middle of its first
// transaction.
func cutOff(t *testing.T) string {
	t.Helper()
	from, to := t.TempDir(), t.TempDir()
	db := raw(t, from)
	err := db.Exec(`PRAGMA cache_size = 1; BEGIN IMMEDIATE; CREATE TABLE t (x);
		INSERT INTO t VALUES (randomblob(100000)); INSERT INTO t VALUES (randomblob(100000))`) // so much that it has to be written before the commit
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{DatabaseName, DatabaseName + "-journal"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil || len(data) == 0 {
			t.Fatalf("%s has %d bytes, %v; want some", name, len(data), err)
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
