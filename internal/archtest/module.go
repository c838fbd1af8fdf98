package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module is this module as the compiler sees it: its packages without their tests, and
// without files that are not for this system. Loading it takes seconds, so tests share
// one.
type Module struct {
	fset     *token.FileSet
	imports  types.Importer
	packages map[string]*pkg // by the path in the module
}

// pkg is one package.
type pkg struct {
	files []*ast.File
	types *types.Package
	uses  map[*ast.Ident]types.Object
	defs  map[*ast.Ident]types.Object
	tests []string // the names of the files that test it from inside
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath  string
	Dir         string
	Export      string // the file with what its importers need to know
	GoFiles     []string
	TestGoFiles []string
	Module      *struct{ Main bool }
}

// LoadModule loads the module at root.
func LoadModule(root string) (*Module, error) {
	all, err := list(root)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	m := &Module{fset: token.NewFileSet(), packages: map[string]*pkg{}}
	m.imports = importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range all {
		if p.Module == nil || !p.Module.Main || len(p.GoFiles) == 0 {
			continue
		}
		files, err := m.parse(p.Dir, p.GoFiles)
		if err != nil {
			return nil, err
		}
		checked, err := check(m.fset, p.ImportPath, files, m.imports)
		if err != nil {
			return nil, err
		}
		for _, name := range p.TestGoFiles {
			checked.tests = append(checked.tests, filepath.Join(p.Dir, name))
		}
		m.packages[strings.TrimPrefix(p.ImportPath, module+"/")] = checked
	}
	return m, nil
}

func (m *Module) parse(dir string, names []string) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(m.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// check finds out what each name in a package means.
func check(fset *token.FileSet, path string, files []*ast.File, imports types.Importer) (*pkg, error) {
	p := &pkg{files: files, uses: map[*ast.Ident]types.Object{}, defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	var err error
	p.types, err = config.Check(path, fset, files, &types.Info{Uses: p.uses, Defs: p.defs})
	return p, err
}

// list asks the go command for the packages below root and all that they
// import. It compiles what has changed.
func list(root string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-buildvcs=false", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,Module", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as mneme is built, also when a test is not
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &stderr)
	}
	var pkgs []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}
