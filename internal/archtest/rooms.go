package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// supportPackages are those, with all below them, that only tests use.
var supportPackages = []string{"tests", "internal/testing", "internal/archtest", "cas/castest", "versionlog/logtest"}

// products returns the files that a build of mneme has.
func products(files []*file) []*file {
	return slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return f.test || isAmong(f.pkg(), supportPackages) })
}

// maxComplexity is the cyclomatic complexity above which a function counts as complex.
const maxComplexity = 20

// rooms measures how large the packages, types and functions of the product are.
func rooms(files []*file) []measure {
	inPackage, methods, exported, complexity := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	lines := 0
	for _, f := range products(files) {
		inPackage[f.pkg()]++
		lines += codeLines(f)
		for _, d := range f.syntax.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			name := f.pkg() + "." + fn.Name.Name
			if fn.Recv != nil {
				of := f.pkg() + "." + receiver(fn)
				name = of + "." + fn.Name.Name
				methods[of]++
				if fn.Name.IsExported() {
					exported[of]++
				}
			}
			complexity[name] = complexityOf(fn)
		}
	}
	most := []measure{
		largest("files of one package", inPackage),
		largest("methods of one type", methods),
		largest("exported methods of one type", exported),
	}
	complex := measure{name: fmt.Sprint("functions of a complexity over ", maxComplexity)}
	for _, name := range byValue(complexity) {
		if complexity[name] > maxComplexity {
			complex.value++
			complex.places = append(complex.places, fmt.Sprint(name, ": ", complexity[name]))
		}
	}
	if len(complex.places) > 0 {
		complex.note = complex.places[0]
	}
	return append(most, complex, measure{name: "lines of code in the product", value: lines, figure: true})
}

// largest is the measure of the largest number; its places are the next ones.
func largest(name string, numbers map[string]int) measure {
	m := measure{name: name}
	names := byValue(numbers)
	for _, of := range names[:min(len(names), 5)] {
		m.places = append(m.places, fmt.Sprint(of, ": ", numbers[of]))
	}
	if len(names) > 0 {
		m.value, m.note = numbers[names[0]], names[0]
	}
	return m
}

// byValue returns the keys of a map, that of the largest number first.
func byValue(numbers map[string]int) []string {
	return slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a, b))
	})
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return "?"
		}
	}
}

// complexityOf returns the cyclomatic complexity of a function with the closures in it: one, and
// one for each if, loop, case, && and ||.
func complexityOf(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// codeLines returns how many lines of a file are neither empty nor a comment alone.
func codeLines(f *file) int {
	n := 0
	inside := false
	for line := range strings.Lines(f.source) {
		line = strings.TrimSpace(line)
		switch {
		case inside:
			inside = !strings.Contains(line, "*/")
		case strings.HasPrefix(line, "/*"):
			inside = !strings.Contains(line, "*/")
		case line != "" && !strings.HasPrefix(line, "//"):
			n++
		}
	}
	return n
}
