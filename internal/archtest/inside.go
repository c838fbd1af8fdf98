package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// callerComments counts the comments that say that a lock is held by the caller.
func callerComments(files []*file) measure {
	counted := measure{name: "comments instead of Locked"}
	byPackage := map[string]int{}
	for _, f := range files {
		if f.test {
			continue
		}
		for _, group := range f.syntax.Comments {
			if n := len(callersHold(group.Text())); n > 0 {
				counted.value += n
				byPackage[f.pkg()] += n
			}
		}
	}
	counted.note = noteOf(byPackage)
	return counted
}

// noteOf lists numbers by package.
func noteOf(byPackage map[string]int) string {
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(byPackage)) {
		parts = append(parts, fmt.Sprint(path, " ", byPackage[path]))
	}
	return strings.Join(parts, ", ")
}

// fsReference is a use of the internals of a mount's file system, in a test.
var fsReference = regexp.MustCompile(`\b\w+\.fs\.[a-z]\w*`)

// fsReferences counts them in the tests of fusefs, as grep does.
func (m *Module) fsReferences() (measure, error) {
	counted := measure{name: "references like r.fs.nodes in tests"}
	for _, name := range m.packages["fusefs"].tests {
		text, err := os.ReadFile(name)
		if err != nil {
			return counted, err
		}
		if n := len(fsReference.FindAll(text, -1)); n > 0 {
			counted.value += n
			counted.places = append(counted.places, fmt.Sprintf("fusefs/%s: %d", filepath.Base(name), n))
		}
	}
	return counted, nil
}

// insideUses counts the uses, in the tests of fusefs, of the package's internals:
// unexported functions, methods, types, fields, variables and constants that no test
// declares. The note has those of the mount's other packages.
func (m *Module) insideUses() (measure, error) {
	counted := measure{name: "uses of what is unexported in tests of fusefs"}
	others := map[string]int{}
	for path, p := range m.packages {
		if len(p.tests) == 0 || !isAmong(path, mountPackages) {
			continue
		}
		byFile, err := m.insideUsesOf(p)
		if err != nil {
			return counted, err
		}
		for file, n := range byFile {
			if path != "fusefs" {
				others[path] += n
				continue
			}
			counted.value += n
			counted.places = append(counted.places, fmt.Sprintf("%s/%s: %d", path, file, n))
		}
	}
	slices.Sort(counted.places)
	if len(others) > 0 {
		counted.note = "and " + noteOf(others)
	}
	return counted, nil
}

func (m *Module) insideUsesOf(p *pkg) (byFile map[string]int, err error) {
	files := slices.Clone(p.files)
	tests := map[string]bool{}
	for _, name := range p.tests {
		f, err := parser.ParseFile(m.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		tests[name] = true
	}
	uses := map[*ast.Ident]types.Object{}
	// A library that only tests import is not there, and what comes of it not known.
	config := types.Config{Importer: m.imports, Error: func(error) {}}
	pkg, _ := config.Check(p.types.Path(), m.fset, files, &types.Info{Uses: uses})
	in := func(at token.Pos) string { return m.fset.Position(at).Filename }
	byFile = map[string]int{}
	for use, object := range uses {
		if tests[in(use.Pos())] && object.Pkg() == pkg && !object.Exported() && !tests[in(object.Pos())] && isMember(object, pkg) {
			byFile[filepath.Base(in(use.Pos()))]++
		}
	}
	return byFile, nil
}

// isMember reports whether an object is of the package, of a type or of a struct.
func isMember(object types.Object, pkg *types.Package) bool {
	switch object := object.(type) {
	case *types.Var:
		return object.IsField() || object.Parent() == pkg.Scope()
	case *types.Func:
		return true
	}
	return object.Parent() == pkg.Scope()
}
