package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "allow the arrows that run back up today, or today's measures")

// loaded is this module, for all tests that want it.
var loaded = sync.OnceValues(func() (*Module, error) { return LoadModule(filepath.Join("..", "..")) })

func thisModule(t *testing.T) *Module {
	t.Helper()
	m, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestArrows prints how the files of each package refer to each other, and
// fails if more of these arrows run back up than testdata/arrows.txt allows.
func TestArrows(t *testing.T) {
	table := filepath.Join("testdata", "arrows.txt")
	graphs := thisModule(t).References()
	if len(graphs["fusefs"].arrows) == 0 {
		t.Fatal("no arrows found in fusefs")
	}
	known, err := readAllowed(table)
	if err == nil && *update {
		if err = writeAllowed(table, graphs, known); err == nil {
			known, err = readAllowed(table)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	out := tabwriter.NewWriter(t.Output(), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "files\tarrows\tback up\t\tat most\t  package")
	for _, pkg := range slices.Sorted(maps.Keys(graphs)) {
		g := graphs[pkg]
		back := len(g.back(known[pkg]))
		fmt.Fprintf(out, "%d\t%d\t%d\t%d %%\t%d\t  %s\n",
			len(g.files), len(g.arrows), back, 100*back/max(1, len(g.arrows)), len(known[pkg]), pkg)
	}
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
	for _, b := range checkArrows(graphs, known) {
		t.Error(b)
	}
}

// TestReferences says what counts as an arrow.
func TestReferences(t *testing.T) {
	const low = "package p; type T struct{ field int }; func (T) Method() {}; func F() T { return T{} }; const C = 1; var V T\n"
	tests := []struct {
		name, high string
		want       string // the names of the arrow from high.go to low.go
	}{
		{"nothing", "func g() {}", ""},
		{"a function", "var g = F", "F (line 2)"},
		{"a type", "type g struct{ t *T }", "T (line 2)"},
		{"a constant", "const g = C + C", "C (line 2)"},
		{"a variable", "var g = &V", "V (line 2)"},
		{"the receiver of a method", "func (T) g() {}", "T (line 2)"},
		{"a method and a field of what a function returns", "func g() int {\nF().Method()\nreturn F().field }", "F (line 3), Method (line 3), field (line 4)"},
		{"a field in a literal", "var g = T{field: 1}", "T (line 2), field (line 2)"},
		{"a promoted method", "type g struct{ T }\nfunc h() { g{}.Method() }", "T (line 2), Method (line 3)"},
		{"a method of a generic type", "var g = generic[int].Get", "Get (line 2), generic (line 2)"},
		{"the same name elsewhere", "func g() { var C, F int; _, _ = C, F; type x struct{ field int }; _ = x{}.field }", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := graphOf(t, map[string]string{
				"low.go":  low + "type generic[A any] struct{ a A }; func (g generic[A]) Get() A { return g.a }",
				"high.go": "package p\n" + test.high,
			})
			got := g.arrows[arrow{"high.go", "low.go"}].String()
			if got != test.want {
				t.Errorf("it names %q, want %q", got, test.want)
			}
			if want := min(1, len(test.want)); len(g.arrows) != want {
				t.Errorf("%d arrows, want %d", len(g.arrows), want)
			}
		})
	}
}

// TestBack says which arrows run back up.
func TestBack(t *testing.T) {
	tests := []struct {
		name, arrows, known, want string
	}{
		{"no circle", "a>b a>c b>c d>a", "", ""},
		{"a pair", "a>b b>a", "", "b>a"},
		{"a pair, of which one names less", "a>b b>a b>a", "", "a>b"},
		{"a pair, of which the one that names more is known", "a>b b>a b>a", "b>a", "b>a"},
		{"a pair, known the other way round", "a>b b>a", "a>b", "a>b"},
		{"one arrow closes many circles", "a>b a>c a>d b>e c>e d>e e>a", "", "e>a"},
		{"two circles that share nothing", "a>b b>a c>d d>e e>c", "", "b>a e>c"},
		{"all with all", "a>b a>c b>a b>c c>a c>b", "", "b>a c>a c>b"},
		{"a known arrow that closes no circle", "a>b", "a>b", ""},
		{"more known than needed", "a>b b>c c>a", "a>b b>c", "b>c"},
		{"what is known stays, and what is new is told", "a>b b>c c>a b>d d>b", "a>b", "a>b d>b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := &graph{files: strings.Fields("a b c d e f"), arrows: map[arrow]names{}}
			for i, a := range parseArrows(test.arrows) {
				g.add(a, strconv.Itoa(i), 1)
			}
			known := map[arrow]bool{}
			for _, a := range parseArrows(test.known) {
				known[a] = true
			}
			if diff := cmp.Diff(parseArrows(test.want), g.back(known), cmp.AllowUnexported(arrow{})); diff != "" {
				t.Errorf("these run back up (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBackIsNearTheLeast compares with all orders of the files.
func TestBackIsNearTheLeast(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	files := strings.Fields("a b c d e f")
	var orders [][]string
	permute(slices.Clone(files), 0, func(order []string) { orders = append(orders, slices.Clone(order)) })
	got, least := 0, 0
	for range 100 {
		g := &graph{files: files, arrows: map[arrow]names{}}
		for range 15 {
			if from, to := files[random.IntN(6)], files[random.IntN(6)]; from != to {
				g.add(arrow{from, to}, "x", 1)
			}
		}
		all := slices.SortedFunc(maps.Keys(g.arrows), compareArrows)
		best := len(all)
		for _, order := range orders {
			best = min(best, len(against(order, all)))
		}
		got += len(g.back(nil))
		least += best
	}
	t.Logf("%d arrows run back up, of at least %d", got, least)
	if got > least {
		t.Errorf("%d arrows run back up, where %d would do", got, least)
	}
}

// permute calls f with all orders of the files after the first n.
func permute(files []string, n int, f func([]string)) {
	if n == len(files) {
		f(files)
	}
	for i := n; i < len(files); i++ {
		files[n], files[i] = files[i], files[n]
		permute(files, n+1, f)
		files[n], files[i] = files[i], files[n]
	}
}

func TestNewArrowIsTold(t *testing.T) {
	graphs := map[string]*graph{
		"good": graphOf(t, map[string]string{"a.go": "package p; var a = b", "b.go": "package p; const b = 1"}),
		"memory": graphOf(t, map[string]string{
			"a.go": "package p; var a = b",
			"b.go": "package p; var b = c()",
			"c.go": "package p; func c() int { return d }\nconst e = 1\nfunc f() { _, _ = a, a }",
			"d.go": "package p; const d = e",
		}),
	}
	known := allowed{"memory": {arrow{"d.go", "c.go"}: true}}
	got := strings.Join(checkArrows(graphs, known), "\n")
	want := "memory: 2 arrows run back up between its files, at most 1 may. New:\n" +
		"\tc.go names a (line 3) of a.go; the way back is a.go -> b.go -> c.go\n"
	if got, _, _ := strings.Cut(got, "Move"); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	known["memory"][arrow{"c.go", "a.go"}] = true
	if got := checkArrows(graphs, known); len(got) != 0 {
		t.Errorf("all is allowed, and it says %q", got)
	}
}

func TestAllowedIsReadAsWritten(t *testing.T) {
	g := graphOf(t, map[string]string{"a.go": "package p; func a() { b() }", "b.go": "package p; func b() { a() }"})
	name := filepath.Join(t.TempDir(), "arrows.txt")
	if err := writeAllowed(name, map[string]*graph{"cmd/p": g, "q": g}, allowed{"q": {arrow{"a.go", "b.go"}: true}}); err != nil {
		t.Fatal(err)
	}
	got, err := readAllowed(name)
	if err != nil {
		t.Fatal(err)
	}
	want := allowed{"cmd/p": {arrow{"b.go", "a.go"}: true}, "q": {arrow{"a.go", "b.go"}: true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(arrow{})); diff != "" {
		t.Error(diff)
	}
}

// graphOf returns the graph of a package with these files.
func graphOf(t *testing.T, sources map[string]string) *graph {
	t.Helper()
	fset := token.NewFileSet()
	p, err := check(fset, "p", parseSources(t, fset, sources), nil)
	if err != nil {
		t.Fatal(err)
	}
	return references(fset, p)
}

func parseSources(t *testing.T, fset *token.FileSet, sources map[string]string) []*ast.File {
	t.Helper()
	var files []*ast.File
	for name, source := range sources {
		f, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// parseArrows reads arrows like "a>b c>d".
func parseArrows(text string) []arrow {
	var arrows []arrow
	for _, field := range strings.Fields(text) {
		from, to, _ := strings.Cut(field, ">")
		arrows = append(arrows, arrow{from, to})
	}
	return arrows
}
