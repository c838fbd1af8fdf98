package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSemanticsNamesTests makes sure that every promise of docs/SEMANTICS.md,
// numbered or below one that is, names tests, and that all that it names exist. A
// sub-test of TestScenarios is a file below a directory testdata/scenarios.
func TestSemanticsNamesTests(t *testing.T) {
	root := filepath.Join("..", "..")
	doc, err := os.ReadFile(filepath.Join(root, "docs", "SEMANTICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	exists := testNames(t, root)
	promise := regexp.MustCompile(`^(?:[0-9]+\. | +- )`)
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z_/]+)`")
	promises := 0
	for line := range strings.Lines(string(doc)) {
		found := name.FindAllStringSubmatch(line, -1)
		if promise.MatchString(line) {
			promises++
			if len(found) == 0 {
				t.Errorf("this promise names no test: %.60s…", line)
			}
		}
		for _, m := range found {
			if !exists[m[1]] {
				t.Errorf("there is no %s, which should hold: %.60s…", m[1], line)
			}
		}
	}
	if promises == 0 {
		t.Error("no numbered promises found")
	}
}

func testNames(t *testing.T, root string) map[string]bool {
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if dir, base := filepath.Split(path); strings.HasSuffix(filepath.ToSlash(dir), "/testdata/scenarios/") {
			names["TestScenarios/"+strings.TrimSuffix(base, ".txt")] = true
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
