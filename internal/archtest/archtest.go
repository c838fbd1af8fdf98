// Package archtest checks what the compiler does not: which package may import
// which, that packages say what they are for, and that files and functions
// stay small. Its test runs it over this module.
package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module = "mneme"

	maxFileLines     = 500
	maxFunctionLines = 80 // tests excepted: a table is no complexity
	maxMainLines     = 40
	mainFile         = "cmd/mneme/main.go"
)

// file is one parsed Go file.
type file struct {
	name   string // slash-separated, from the root of the module
	test   bool
	lines  int
	syntax *ast.File
	fset   *token.FileSet
}

// pkg returns the file's directory, which is the package's path in the module.
func (f *file) pkg() string { return path.Dir(f.name) }

func (f *file) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// Check returns what the Go files below root break, one line each.
func Check(root string) ([]string, error) {
	files, err := parseTree(root)
	if err != nil {
		return nil, err
	}
	var broken []string
	for _, f := range files {
		broken = append(broken, checkImports(f)...)
		broken = append(broken, checkSize(f)...)
	}
	return append(broken, checkPackageComments(files)...), nil
}

func parseTree(root string) ([]*file, error) {
	var files []*file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root && (base == "testdata" || strings.HasPrefix(base, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parseFile(root, name)
		files = append(files, f)
		return err
	})
	return files, err
}

func parseFile(root, name string) (*file, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return nil, err
	}
	f := &file{
		name: filepath.ToSlash(rel), test: strings.HasSuffix(name, "_test.go"),
		lines: strings.Count(string(source), "\n"), fset: token.NewFileSet(),
	}
	f.syntax, err = parser.ParseFile(f.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

func checkSize(f *file) []string {
	var broken []string
	limit := maxFileLines
	if f.name == mainFile {
		limit = maxMainLines
	}
	if f.lines > limit {
		broken = append(broken, fmt.Sprintf("%s: %d lines, at most %d", f.name, f.lines, limit))
	}
	if f.test {
		return broken
	}
	for _, decl := range f.syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
		if lines > maxFunctionLines {
			broken = append(broken, fmt.Sprintf("%s: func %s: %d lines, at most %d", f.name, fn.Name.Name, lines, maxFunctionLines))
		}
	}
	return broken
}

// checkPackageComments wants one comment per package, in a file that is not a
// test unless there are only tests.
func checkPackageComments(files []*file) []string {
	comments, hasCode := map[string]int{}, map[string]bool{}
	for _, f := range files {
		hasCode[f.pkg()] = hasCode[f.pkg()] || !f.test
		comments[f.pkg()] += 0
	}
	for _, f := range files {
		if f.syntax.Doc != nil && f.test != hasCode[f.pkg()] {
			comments[f.pkg()]++
		}
	}
	var broken []string
	for pkg, n := range comments {
		if n != 1 {
			broken = append(broken, fmt.Sprintf("%s: %d package comments, want 1", pkg, n))
		}
	}
	slices.SortFunc(broken, cmp.Compare[string])
	return broken
}
