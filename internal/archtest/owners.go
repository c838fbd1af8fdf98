package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// declarations calls do with each declaration of the module, and the path of its package
// and of its file below the module's root.
func (m *Module) declarations(do func(p *pkg, path, file string, decl ast.Decl)) {
	for _, path := range slices.Sorted(maps.Keys(m.packages)) {
		p := m.packages[path]
		for _, f := range p.files {
			file := path + "/" + filepath.Base(m.fset.Position(f.FileStart).Filename)
			for _, decl := range f.Decls {
				do(p, path, file, decl)
			}
		}
	}
}

// writersOf counts the files that change a field of a struct that is named like
// fusefs/tree.Entry: by an assignment, by taking its address, or in a literal. The second
// number is that of the files which do, or call a function that does.
func (m *Module) writersOf(structName, field string) (writers, callers measure) {
	object := m.fieldOf(structName, field)
	files, setters := map[string]bool{}, map[string]bool{}
	m.declarations(func(p *pkg, _, file string, decl ast.Decl) {
		if changes(p, decl, object) {
			files[file] = true
			if fn, ok := decl.(*ast.FuncDecl); ok {
				setters[p.defs[fn.Name].(*types.Func).FullName()] = true
			}
		}
	})
	calling := maps.Clone(files)
	m.declarations(func(p *pkg, _, file string, decl ast.Decl) {
		for callee := range calls(p, decl) {
			if setters[callee] {
				calling[file] = true
			}
		}
	})
	return measure{name: "files that change the " + field + " of an entry", value: len(files), note: structName, places: slices.Sorted(maps.Keys(files))},
		measure{name: "files that do, or call a function that does", value: len(calling), note: fmt.Sprint(len(setters), " functions do"), figure: true}
}

// firstStruct returns the first of some types, named like fusefs/tree.Entry, that is a
// struct of the module.
func (m *Module) firstStruct(names []string) (string, *types.Struct) {
	for _, name := range names {
		path, typ, _ := strings.Cut(name, ".")
		p := m.packages[path]
		if p == nil {
			continue
		}
		if object := p.types.Scope().Lookup(typ); object != nil {
			if s, ok := object.Type().Underlying().(*types.Struct); ok {
				return name, s
			}
		}
	}
	return "", nil
}

// fieldOf returns a field of a struct; nil: it has none of that name.
func (m *Module) fieldOf(structName, field string) types.Object {
	_, s := m.firstStruct([]string{structName})
	for f := range s.Fields() {
		if f.Name() == field {
			return f
		}
	}
	return nil
}

// changes reports whether a field may be changed below a node.
func changes(p *pkg, below ast.Node, field types.Object) bool {
	is := func(e ast.Expr) bool {
		sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
		return ok && field != nil && p.uses[sel.Sel] == field
	}
	found := false
	ast.Inspect(below, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			found = found || slices.ContainsFunc(n.Lhs, is)
		case *ast.IncDecStmt:
			found = found || is(n.X)
		case *ast.UnaryExpr:
			found = found || n.Op == token.AND && is(n.X)
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			found = found || ok && field != nil && p.uses[key] == field
		}
		return !found
	})
	return found
}

// calls returns the full names of the functions that are called below a node, function
// literals included. A call through an interface is one of the interface's method.
func calls(p *pkg, below ast.Node) map[string]bool {
	called := map[string]bool{}
	ast.Inspect(below, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		var name *ast.Ident
		switch fun := ast.Unparen(call.Fun).(type) {
		case *ast.Ident:
			name = fun
		case *ast.SelectorExpr:
			name = fun.Sel
		case *ast.IndexExpr:
			name, _ = fun.X.(*ast.Ident)
		}
		if fn, ok := p.uses[name].(*types.Func); ok {
			called[fn.Origin().FullName()] = true
		}
		return true
	})
	return called
}

// reachedFiles counts the files of the mount that have a function which is called from
// one, by however many others.
func (m *Module) reachedFiles(from string) measure {
	type function struct {
		file  string // "" outside the mount
		calls map[string]bool
	}
	functions := map[string]function{}
	m.declarations(func(p *pkg, path, file string, decl ast.Decl) {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			return
		}
		if !isAmong(path, mountPackages) {
			file = ""
		}
		functions[p.defs[fn.Name].(*types.Func).FullName()] = function{file, calls(p, decl)}
	})
	reached, files := map[string]bool{from: true}, map[string]bool{}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		f := functions[next[0]]
		if f.file != "" {
			files[f.file] = true
		}
		for callee := range f.calls {
			if !reached[callee] {
				reached[callee] = true
				next = append(next, callee)
			}
		}
	}
	return measure{name: "files that a rename passes through", value: len(files), note: "called from " + strings.ReplaceAll(from, module+"/", ""), figure: true}
}
