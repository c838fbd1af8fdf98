package archtest

import (
	"go/token"
	"path/filepath"
	"slices"
)

// References returns how the files of each package refer to each other, by the package's
// path in the module.
func (m *Module) References() map[string]*graph {
	graphs := map[string]*graph{}
	for path, p := range m.packages {
		graphs[path] = references(m.fset, p)
	}
	return graphs
}

// references returns the graph of a package's files. An arrow leads from one file to
// another if the first names something that the second declares: a function, type, variable
// or constant of the package, a method, or a field of a struct. A method's receiver counts
// as naming its type. Implicit references do not count: a type that satisfies an interface,
// the steps on the way to a promoted field.
func references(fset *token.FileSet, p *pkg) *graph {
	g := &graph{arrows: map[arrow]names{}}
	for _, f := range p.files {
		g.files = append(g.files, filepath.Base(fset.Position(f.FileStart).Filename))
	}
	slices.Sort(g.files)
	for use, object := range p.uses {
		from, to := fset.Position(use.Pos()), fset.Position(object.Pos())
		if object.Pkg() == p.types && from.Filename != to.Filename {
			g.add(arrow{filepath.Base(from.Filename), filepath.Base(to.Filename)}, use.Name, from.Line)
		}
	}
	return g
}
