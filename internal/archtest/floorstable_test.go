package archtest

import (
	"cmp"
	"fmt"
	"go/doc"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	tableBegins = "<!-- floors: written by `go test ./internal/archtest -run FloorsTable -update` -->\n"
	tableEnds   = "<!-- end of floors -->\n"
)

// TestFloorsTable makes sure that ARCHITECTURE shows the floors as they are, with the first sentence
// of each package's comment.
func TestFloorsTable(t *testing.T) {
	const page = "../../docs/ARCHITECTURE.md"
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no %s … %s", page, tableBegins, tableEnds)
	}
	want := before + tableBegins + floorsTable(files) + tableEnds + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the floors in %s are not those of the packages; `go test ./internal/archtest -run FloorsTable -update` writes them", page)
	}
}

// floorsTable lists the packages that have a floor, the highest first.
func floorsTable(files []*file) string {
	holds := map[string]string{}
	for _, f := range files {
		if f.syntax.Doc != nil && !f.test {
			text := new(doc.Package).Synopsis(f.syntax.Doc.Text())
			text = strings.TrimPrefix(strings.TrimPrefix(text, "Package "), "Command ")
			holds[f.pkg()] = strings.TrimSuffix(strings.TrimPrefix(text, path.Base(f.pkg())+" "), ".")
		}
	}
	packages := slices.DeleteFunc(slices.Collect(maps.Keys(floors)), func(pkg string) bool { return holds[pkg] == "" }) // planned
	slices.SortFunc(packages, func(a, b string) int {
		return cmp.Or(cmp.Compare(floors[b], floors[a]), cmp.Compare(a, b))
	})
	table := "| floor | package | |\n|---|---|---|\n"
	for _, pkg := range packages {
		table += fmt.Sprintf("| %d | `%s` | %s |\n", floors[pkg], pkg, holds[pkg])
	}
	return table
}
