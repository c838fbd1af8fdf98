package finding

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// TestAllIsAll: every constant that is declared is in the list, once.
func TestAllIsAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "finding.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			kind, isName := spec.Type.(*ast.Ident)
			value, isText := spec.Values[0].(*ast.BasicLit)
			if isName && isText && kind.Name == "Kind" {
				declared = append(declared, value.Value[1:len(value.Value)-1])
			}
		}
		return true
	})
	for _, info := range All() {
		listed = append(listed, string(info.Kind))
	}
	if !slices.Equal(declared, listed) || len(listed) < 40 {
		t.Errorf("declared %q, listed %q", declared, listed)
	}
}
