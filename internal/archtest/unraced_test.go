package archtest

import (
	"go/ast"
	"go/build/constraint"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUnracedAreNamed makes sure that CI runs the tests that are not built with the race
// detector: `make check` runs what NO_RACE names of the packages in PARTLY without it.
func TestUnracedAreNamed(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^NO_RACE = .*$`).FindString(string(makefile))
	partly := strings.Fields(regexp.MustCompile(`(?m)^PARTLY = .*$`).FindString(string(makefile)))
	files, err := parseTree(root)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range files {
		if !f.test || strings.HasPrefix(f.pkg(), "tests/") || builtWithRace(f.syntax) {
			continue
		}
		for _, decl := range f.syntax.Decls {
			test, ok := decl.(*ast.FuncDecl)
			if !ok || test.Recv != nil || !strings.HasPrefix(test.Name.Name, "Test") {
				continue
			}
			found++
			if !strings.Contains(named, "|^"+test.Name.Name+"$$") || !slices.Contains(partly, "./"+f.pkg()) {
				t.Errorf("%s of %s is not built with the race detector: name it in NO_RACE and its package in PARTLY in the Makefile, so that CI runs it", test.Name.Name, f.name)
			}
		}
	}
	if found == 0 {
		t.Error("no such test found")
	}
}

// builtWithRace tells whether the race detector has the file, with everything else that it asks for.
func builtWithRace(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if expr, err := constraint.Parse(comment.Text); err == nil && comment.Pos() < f.Package {
				return expr.Eval(func(tag string) bool { return true })
			}
		}
	}
	return true
}
