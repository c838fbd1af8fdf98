package archtest

import (
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestMeasures prints numbers about how the mount is built, and fails if one is above
// what testdata/measures.txt allows.
func TestMeasures(t *testing.T) {
	table := filepath.Join("testdata", "measures.txt")
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	all, err := thisModule(t).Measures(files)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(guides) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	counted, err := words(files, append(append(docs, guides...), "../../README.md", "../../CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, counted...)
	if *update {
		if err := writeMeasures(table, all); err != nil {
			t.Fatal(err)
		}
	}
	most, err := readMeasures(table)
	if err != nil {
		t.Fatal(err)
	}
	out := tabwriter.NewWriter(t.Output(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "today\tat most\tmeasure\tof")
	for _, m := range all {
		limit := fmt.Sprint(most[m.name])
		if m.figure {
			limit = ""
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\n", m.value, limit, m.name, m.note)
	}
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
	for _, b := range checkMeasures(all, most) {
		t.Error(b)
	}
}

// TestStateConditions says what is a condition that decodes an entry.
func TestStateConditions(t *testing.T) {
	const entry = "type Entry struct { local, removed bool; head, parent *Entry; size int }\nfunc (e *Entry) isDir() bool { return false }\n" +
		"type other struct { local, removed bool }\n"
	tests := []struct {
		name, condition string
		want            int
	}{
		{"one part", "e.local", 0},
		{"two parts", "e.local && e.head == nil", 1},
		{"either of two", "!e.removed || e.head != nil || e.parent != nil", 1},
		{"with a method", "!e.isDir() && e.size > 0 && (e.size < 9 || !e.local)", 1},
		{"of two entries", "e.local && f.local", 0},
		{"below another", "e.head.local && e.local || e.head.removed", 1},
		{"of another type", "o.local && o.removed", 0},
		{"compared with another", "e.head == f && e.parent == f", 0},
		{"apart", "e.local == (e.head == nil)", 0},
		{"two of them", "(e.local && e.removed) == (f.local && f.removed)", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := moduleOf(t, map[string]map[string]string{"fusefs/tree": {
				"tree.go": "package tree\n" + entry + "func c(e, f *Entry, o other) bool { return " + test.condition + " }",
			}})
			got := m.stateConditions("fusefs/tree.Entry")
			if got.value != test.want || len(got.places) != test.want {
				t.Errorf("%d conditions at %v, want %d", got.value, got.places, test.want)
			}
		})
	}
}

// TestOwners says which files change a field, and which a function reaches.
func TestOwners(t *testing.T) {
	m := moduleOf(t, map[string]map[string]string{
		"memory": {"memory.go": "package memory; func Read(then func()) { then() }"},
		"fusefs": {
			"a.go": "package fusefs; type node struct { head, tail int }\nfunc (n *node) set() { n.head = 1 }",
			"b.go": "package fusefs; func b() *node { return &node{head: 1} }",
			"c.go": "package fusefs; func c(n *node) *int { return &n.head }",
			"d.go": "package fusefs; func d(n *node) { func() { n.head++ }() }",
			"e.go": "package fusefs; func e(n *node) { n.set(); n.tail = n.head; e(n) }",
			"f.go": "package fusefs; import \"mneme/memory\"\ntype s struct { head int }; func (s s) f(n *node) { s.head = 1; memory.Read(func() { e(n) }) }",
		},
	})
	writers, callers := m.writersOf("fusefs.node", "head")
	if want := "[fusefs/a.go fusefs/b.go fusefs/c.go fusefs/d.go]"; fmt.Sprint(writers.places) != want || writers.value != 4 {
		t.Errorf("%d files change it: %v, want %s", writers.value, writers.places, want)
	}
	if callers.value != 5 {
		t.Errorf("%d files change it or have it changed, want 5", callers.value)
	}
	if got := m.reachedFiles("(mneme/fusefs.s).f"); got.value != 3 {
		t.Errorf("%d files are reached, want a.go, e.go and f.go", got.value)
	}
}

// TestInsideUses says what counts as a look inside a package.
func TestInsideUses(t *testing.T) {
	m := moduleOf(t, map[string]map[string]string{"fusefs": {
		"a.go": "package fusefs; type node struct { head int; Size int }\nfunc (n *node) set() { n.head = 1 }; func (n *node) Get() int { return n.head }; const c = 1",
	}})
	test := filepath.Join(t.TempDir(), "a_test.go")
	write(t, test, "package fusefs\nimport \"example.com/missing\"\nvar own = missing.New().Thing\nfunc use(n *node, local int) int { n.set(); use(n, c); _ = own; return n.head + n.Get() + n.Size + local }")
	m.packages["fusefs"].tests = []string{test}
	got, err := m.insideUses()
	if err != nil || got.value != 4 { // node, set, c, head
		t.Errorf("%d uses: %v, %v; want 4", got.value, got.places, err)
	}
	write(t, test, "package fusefs\nvar x = r.fs.nodes[r.fs.Lookup(rig.fs.root)]")
	if got, err := m.fsReferences(); err != nil || got.value != 2 {
		t.Errorf("%d references: %v, %v; want 2", got.value, got.places, err)
	}
}

// TestRooms says how files, methods and complexity are counted.
func TestRooms(t *testing.T) {
	source := "package a\n// not code\n\ntype T struct{}\nfunc (t *T) M() {}\nfunc (T) m() {\n" + strings.Repeat("if true && (true || false) {}\n", 7) + "}\n"
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b.go", "a_test.go"} {
		write(t, filepath.Join(dir, name), strings.ReplaceAll(source, "T", strings.ToUpper(name[:1])))
	}
	files, err := parseTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range rooms(files) {
		got = append(got, fmt.Sprint(m.name, ": ", m.value))
	}
	want := "[files of one package: 2 methods of one type: 2 exported methods of one type: 1 functions of a complexity over 20: 2 lines of code in the product: 24]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWords says which turns of phrase are counted.
func TestWords(t *testing.T) {
	tests := []struct {
		text string
		want string // how often each pattern
	}{
		{"What is open is listed. What else: nothing.", "[2 0 0 0 0]"},
		{"It says what is open, and nothing of what is not; more than what was asked.", "[0 2 0 0 0]"},
		{"Somebody else, nobody's and anybody; the body of a request.", "[0 0 3 0 0]"},
		{"Who asks is told, and who does not waits for whoever does; a session who knows.", "[0 0 0 3 0]"},
		{"It is to be read anew, by then or by now.", "[0 0 0 0 4]"},
	}
	for _, test := range tests {
		name := filepath.Join(t.TempDir(), "page.md")
		write(t, name, test.text)
		all, err := words(nil, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, m := range all {
			got = append(got, (m.value*len(strings.Fields(test.text))+per/2)/per)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%q: %v, want %v", test.text, got, test.want)
		}
	}
}

func TestMeasuresAreRatchets(t *testing.T) {
	all := []measure{{name: "bytes", value: 9, places: []string{"a.go"}}, {name: "files", value: 3}, {name: "a figure", value: 7, figure: true}}
	table := filepath.Join(t.TempDir(), "measures.txt")
	if err := writeMeasures(table, all); err != nil {
		t.Fatal(err)
	}
	most, err := readMeasures(table)
	if err != nil || len(most) != 2 {
		t.Fatalf("%v, %v are read", most, err)
	}
	wantBroken := func(want ...string) {
		t.Helper()
		got := checkMeasures(all, most)
		for i, b := range got {
			if i >= len(want) || !strings.HasPrefix(b, want[i]) {
				t.Errorf("it says %q, want %q", got, want)
			}
		}
		if len(got) < len(want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	wantBroken()
	all[0].value, all[1].value, all[2].value = 8, 4, 100
	wantBroken("files: 4, at most 3 may be")
	all[1].name = "rooms"
	wantBroken("files is limited and not measured", "rooms: 4, and there is no limit")
}

// moduleOf is a module of packages, by path, each of which has files.
func moduleOf(t *testing.T, sources map[string]map[string]string) *Module {
	t.Helper()
	m := &Module{fset: token.NewFileSet(), packages: map[string]*pkg{}}
	var load importerFunc
	load = func(path string) (*types.Package, error) {
		path = strings.TrimPrefix(path, module+"/")
		if p := m.packages[path]; p != nil {
			return p.types, nil
		}
		if sources[path] == nil {
			return nil, errors.New("there is no such package")
		}
		p, err := check(m.fset, module+"/"+path, parseSources(t, m.fset, sources[path]), load)
		m.packages[path] = p
		return p.types, err
	}
	m.imports = load
	for path := range sources {
		if _, err := load(path); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
