package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
)

// stateNames are the fields and methods of an entry that have a part of its state, by their
// current and earlier names.
var stateNames = []string{
	"local", "mountOnly", "removed", "closing", "isDir", "succeeded", // true or false
	"origin", "head", "parent", "stage", "file", "aside", "dir", // nil or not
	"IsDir", "Head", "Parent",
}

// stateConditions counts the conditions that find out what an entry is by joining two or
// more parts of its state with && or ||.
func (m *Module) stateConditions(entry string) measure {
	counted := measure{name: "conditions that decode an entry", note: entry}
	m.declarations(func(p *pkg, path, _ string, decl ast.Decl) {
		if !isAmong(path, mountPackages) {
			return
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			joined, ok := n.(*ast.BinaryExpr)
			if !ok || joined.Op != token.LAND && joined.Op != token.LOR {
				return true
			}
			if m.decodes(p, joined, entry) {
				counted.value++
				counted.places = append(counted.places, m.position(path, joined.Pos()))
				return false
			}
			return true
		})
	})
	slices.SortFunc(counted.places, cmp.Compare[string])
	return counted
}

// position returns where something of a package stands.
func (m *Module) position(path string, at token.Pos) string {
	p := m.fset.Position(at)
	return fmt.Sprintf("%s/%s:%d", path, filepath.Base(p.Filename), p.Line)
}

// decodes reports whether a condition has two parts of the state of one entry.
func (m *Module) decodes(p *pkg, joined *ast.BinaryExpr, entry string) bool {
	parts := map[string]int{}
	for _, operand := range operands(joined) {
		if x := m.statePart(p, operand, entry); x != "" {
			parts[x]++
		}
	}
	for _, n := range parts {
		if n >= 2 {
			return true
		}
	}
	return false
}

// operands returns what && and || join, without the ! before it.
func operands(e ast.Expr) []ast.Expr {
	switch x := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR {
			return append(operands(x.X), operands(x.Y)...)
		}
		return []ast.Expr{x}
	case *ast.UnaryExpr:
		return operands(x.X)
	default:
		return []ast.Expr{x}
	}
}

// statePart returns the entry, as it is written, of which an operand asks a part of the
// state: n for n.local, n.isDir() and n.head != nil; "" if it does not.
func (m *Module) statePart(p *pkg, operand ast.Expr, entry string) string {
	if compared, ok := operand.(*ast.BinaryExpr); ok {
		if y, isName := compared.Y.(*ast.Ident); !isName || y.Name != "nil" || compared.Op != token.EQL && compared.Op != token.NEQ {
			return ""
		}
		operand = compared.X
	}
	if call, ok := operand.(*ast.CallExpr); ok {
		operand = call.Fun
	}
	sel, ok := operand.(*ast.SelectorExpr)
	if !ok || !slices.Contains(stateNames, sel.Sel.Name) || !m.isOf(p.uses[sel.Sel], entry) {
		return ""
	}
	return types.ExprString(sel.X)
}

// isOf reports whether something is a field or a method of a struct of the module.
func (m *Module) isOf(object types.Object, structName string) bool {
	switch object := object.(type) {
	case *types.Var:
		return object == m.fieldOf(structName, object.Name())
	case *types.Func:
		receiver := object.Signature().Recv()
		if receiver == nil {
			return false
		}
		typ := receiver.Type()
		if pointer, ok := typ.(*types.Pointer); ok {
			typ = pointer.Elem()
		}
		return typ.String() == module+"/"+structName
	}
	return false
}
