package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const module = "mneme"

// file is one parsed Go file.
type file struct {
	name   string // slash-separated, from the root of the module
	test   bool
	lines  int
	source string
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

// parseTree reads the Go files below root.
func parseTree(root string) ([]*file, error) {
	var files []*file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root && (base == "testdata" || strings.HasPrefix(base, ".") || isModule(name)) {
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

// isModule reports whether a directory is the root of a module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
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
		lines: strings.Count(string(source), "\n"), source: string(source), fset: token.NewFileSet(),
	}
	f.syntax, err = parser.ParseFile(f.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}
