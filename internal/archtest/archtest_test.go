package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// parsed are the files of this module, for all tests that want them.
var parsed = sync.OnceValues(func() ([]*file, error) { return parseTree(filepath.Join("..", "..")) })

func TestThisModule(t *testing.T) {
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range Check(files) {
		t.Error(b)
	}
}

// TestRulesAreAlive breaks every rule in a tree of its own.
func TestRulesAreAlive(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\t_ = 0\n", n) }
	tests := []struct {
		name  string
		files map[string]string
		want  string // part of a line; "" when nothing is broken
	}{
		{"a good tree", map[string]string{
			"cas/locked.go":                 "package cas\n\n// f is. The caller holds no lock.\nfunc f() { mu.Lock(); defer mu.Unlock(); gLocked() }\n",
			"cas/cas.go":                    "// Package cas is.\npackage cas\nimport _ \"io\"\n",
			"versionlog/log.go":             "// Package versionlog is.\npackage versionlog\nimport _ \"mneme/cas\"\n",
			"memory/memory.go":              "// Package memory is.\npackage memory\nimport _ \"mneme/versionlog\"\nimport _ \"example.com/diff\"\n",
			"memory/memory_test.go":         "package memory\nimport _ \"mneme/cas/memcas\"\nimport _ \"github.com/ncruces/go-sqlite3\"\n",
			"backend/backend.go":            "// Package backend is.\npackage backend\nimport _ \"mneme/cas/dircas\"\n",
			"cmd/mneme/open.go":             "// Command mneme is.\npackage main\nimport _ \"mneme/backend\"\n",
			"tests/use/mount_test.go":       "// Package use is.\npackage use\nimport _ \"mneme/fusefs\"\n",
			"tests/harness/database.go":     "// Package harness is.\npackage harness\nimport _ \"github.com/ncruces/go-sqlite3\"\n",
			"cas/testdata/x.go":             "not Go",
			"cas/dircas/dircas.go":          "// Package dircas is.\npackage dircas\nimport _ \"mneme/internal/durable\"\n",
			"memory/long_test.go":           "package memory\nfunc f() {\n" + lines(90) + "}\n",
			"internal/testing/skip/skip.go": "// Package skip is.\npackage skip\nimport _ \"testing\"\n",
			"fusefs/fs.go":                  "// Package fusefs is.\npackage fusefs\nimport _ \"github.com/hanwen/go-fuse/v2/fuse\"\n",
			"versionlog/logtest/lt.go":      "// Package logtest is.\npackage logtest\nimport _ \"mneme/versionlog\"\n",
			"cas/format.go":                 "package cas\n\n// advice is in `mneme fsck`.\nconst header = \"mneme fscked 1\"\nconst other = \"mneme fsck 1\\n\"\n",
			"cas/text_test.go":              "package cas\nconst text = \"`mneme fsck`\"\n",
			"fusefs/guide.go":               "package fusefs\nconst text = \"`mneme fsck`\"\n",
			grammarFile:                     "package main\ntype cli struct {\n\tFsck int `cmd:\"\"`\n}\n",
		}, ""},
		{"upwards", one("memory", `import _ "mneme/fusefs"`), "floor 2 imports from below only"},
		{"sideways", one("memory", `import _ "mneme/cache"`), "it is on floor 2"},
		{"cas from versionlog only", one("cas", `import _ "mneme/versionlog"`), "floor 1 imports"},
		{"a library in a contract", one("cas", `import _ "golang.org/x/text/unicode/norm"`), "standard library only"},
		{"a backend in the domain", one("memory", `import _ "mneme/cas/dircas"`), "only backend names a backend"},
		{"a backend in a backend", one("cas/dircas", `import _ "mneme/cas/memcas"`), "only backend names a backend"},
		{"a backend in the mount", one("fusefs", `import _ "mneme/versionlog/sqlitelog"`), "only backend names a backend"},
		{"a backend in the command line", one("cmd/mneme", `import _ "mneme/versionlog/sqlitelog"`), "only backend names a backend"},
		{"a face that opens a URL", one("fusefs", `import _ "mneme/backend"`), "only cmd/mneme, adopt opens a URL"},
		{"a face below backend", one("backend", `import _ "mneme/fusefs"`), "floor 5 imports from below only"},
		{"a command in the domain", one("memory", "const advice = \"look with `mneme fsck`\""), "memory.go:3: a text names the command"},
		{"a command without quotes", map[string]string{
			grammarFile:  "// Command mneme is.\npackage main\ntype cli struct {\n\tURL string `name:\"url\"`\n\tFsck int `cmd:\"\"`\n}\n",
			"cas/cas.go": "// Package cas is.\npackage cas\nconst advice = \"run mneme --json fsck first\"\n",
		}, "cas.go:3: a text names the command \"mneme --json fsck\""},
		{"a test package in code", one("cache", `import _ "mneme/internal/testing/skip"`), "for tests only"},
		{"sqlite", one("memory", `import _ "github.com/ncruces/go-sqlite3"`), "only internal/sqlite, versionlog/sqlitelog may"},
		{"go-fuse", one("cmd/mneme", `import _ "github.com/hanwen/go-fuse/v2/fuse"`), "only fusefs, internal/fusedev, internal/testing/barefs, internal/testing/crashfs may"},
		{"ristretto", one("fusefs", `import _ "github.com/dgraph-io/ristretto/v2"`), "only cache may"},
		{"the AWS SDK", one("memory", `import _ "github.com/aws/aws-sdk-go-v2/aws"`), "only cas/s3cas"},
		{"no floor", one("util", ""), "package util has no floor"},
		{"no package comment", map[string]string{"cas/cas.go": "package cas\n"}, "cas: 0 package comments"},
		{"two package comments", map[string]string{
			"cas/a.go": "// Package cas is.\npackage cas\n", "cas/b.go": "// Package cas is.\npackage cas\n",
		}, "cas: 2 package comments"},
		{"a long file", one("cas", strings.Repeat("\n", maxFileLines)), "503 lines, at most 500"},
		{"a long function", one("cas", "func f() {\n"+lines(79)+"}"), "func f: 81 lines, at most 80"},
		{"a call without a lock", one("cas", "func f() { gLocked() }"), "cas.go:3: gLocked is called without a lock"},
		{"a call after an unlock", one("cas", "func f() { mu.Lock(); mu.Unlock(); gLocked() }"), "gLocked is called without a lock"},
		{"a call in a goroutine", one("cas", "func f() { mu.Lock(); defer mu.Unlock(); go func() { gLocked() }() }"), "gLocked is called without a lock"},
		{"a call in a deferred literal", one("cas", "func f() { mu.Lock(); defer mu.Unlock(); defer func() { gLocked() }() }"), "gLocked is called without a lock"},
		{"a caller's lock given back", one("cas", "func gLocked() { mu.Unlock(); mu.Lock() }"), "mu is unlocked, which the caller has locked"},
		{"a caller's lock taken", one("cas", "func (t *T) gLocked() { t.mu.Lock(); defer t.mu.Unlock() }"), "t.mu, which the caller holds, is locked"},
		{"a comment instead of a name", one("cas", "// g is. The caller\n// holds mu.\nfunc g() {}"), `cas.go:3: a comment says "caller holds mu"`},
		{"a long main.go", map[string]string{
			mainFile: "// Command mneme is.\npackage main\n" + strings.Repeat("\n", maxMainLines),
		}, "42 lines, at most 40"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, source := range test.files {
				write(t, filepath.Join(root, name), source)
			}
			files, err := parseTree(root)
			if err != nil {
				t.Fatal(err)
			}
			broken := Check(files)
			if test.want == "" && len(broken) > 0 {
				t.Errorf("broken: %q, want nothing", broken)
			}
			if test.want != "" && !slices.ContainsFunc(broken, func(b string) bool { return strings.Contains(b, test.want) }) {
				t.Errorf("broken: %q, want one with %q", broken, test.want)
			}
		})
	}
}

// one is a tree of one package in one file.
func one(pkg, code string) map[string]string {
	name := filepath.Base(pkg)
	return map[string]string{pkg + "/" + name + ".go": "// Package " + name + " is.\npackage " + name + "\n" + code + "\n"}
}

func write(t *testing.T, name, source string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
}
