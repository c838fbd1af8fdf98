package tests

import (
	"os"
	"path/filepath"
	"testing"

	"mneme/internal/barefs"
)

// bare mounts a file system that does next to nothing and has the files of a
// directory, "" being none.
func (e *env) bare(b testing.TB, from, kind string) *peer {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := e.newDir(b, "bare-")
	return e.startPeer(b, filepath.Join(dir, "mnt"), []string{childVariable + "=bare"}, self, filepath.Join(dir, "mnt"), filepath.Join(dir, "record"), from, kind)
}

// bareChild serves it.
func bareChild(args []string) error {
	return barefs.Serve(args[0], args[1], args[2], args[3] == "ro")
}
