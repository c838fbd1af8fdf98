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
	"slices"
	"strings"
)

// listed is what the go command says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Export     string // the file with what its importers need to know
	GoFiles    []string
	Module     *struct{ Main bool }
}

// References returns how the files of each package of the module at root refer
// to each other, by the package's path in the module. Tests are left out, and
// so are files that are not for this system.
func References(root string) (map[string]*graph, error) {
	pkgs, err := list(root)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range pkgs {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	graphs := map[string]*graph{}
	for _, p := range pkgs {
		if p.Module == nil || !p.Module.Main || len(p.GoFiles) == 0 {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		g, err := references(fset, p.ImportPath, files, imports)
		if err != nil {
			return nil, err
		}
		graphs[strings.TrimPrefix(p.ImportPath, module+"/")] = g
	}
	return graphs, nil
}

// list asks the go command for the packages below root and all that they
// import. It compiles what has changed.
func list(root string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-buildvcs=false", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
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

// references returns the graph of a package's files. There is an arrow from one
// file to another if the first names something that the second declares: a
// function, type, variable or constant of the package, a method, or a field of
// a struct. A method's receiver counts as naming its type. What is not named
// does not count: a type that satisfies an interface, the steps on the way to a
// promoted field.
func references(fset *token.FileSet, path string, files []*ast.File, imports types.Importer) (*graph, error) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	pkg, err := config.Check(path, fset, files, info)
	if err != nil {
		return nil, err
	}
	g := &graph{arrows: map[arrow]names{}}
	for _, f := range files {
		g.files = append(g.files, filepath.Base(fset.Position(f.FileStart).Filename))
	}
	slices.Sort(g.files)
	for use, object := range info.Uses {
		from, to := fset.Position(use.Pos()), fset.Position(object.Pos())
		if object.Pkg() == pkg && from.Filename != to.Filename {
			g.add(arrow{filepath.Base(from.Filename), filepath.Base(to.Filename)}, use.Name, from.Line)
		}
	}
	return g, nil
}
