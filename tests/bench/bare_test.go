package bench

import (
	"os"
	"path/filepath"
	"testing"

	"mneme/internal/testing/barefs"
	"mneme/tests/harness"
)

// bareStores are where the bytes of a bare file system may be.
var bareStores = []string{"memory", "database"}

// mountBare mounts a file system that does next to nothing and has the files of a
// directory, "" being none, in one of bareStores.
func mountBare(b testing.TB, e *harness.Env, from, kind, store string) *peer {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := newDir(b, e, "bare-")
	return startPeer(b, e, filepath.Join(dir, "mnt"), []string{harness.ChildVariable + "=bare"}, self, filepath.Join(dir, "mnt"), filepath.Join(dir, "record"), from, kind, store)
}

// bareChild serves it.
func bareChild(args []string) error {
	return barefs.Serve(args[0], args[1], args[2], &barefs.Options{ReadOnly: args[3] == "ro", Database: args[4] == "database"})
}
