package archtest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// allowed are the arrows that may run back up, by package. How many they are is
// the most that a package may have; which they are lets a failure tell what is
// new.
type allowed map[string]map[arrow]bool

const arrowsHeader = "# The arrows between the files of a package that run back up. There may not be more.\n" +
	"# Written by `go test ./internal/archtest -run Arrows -update`.\n"

func readAllowed(name string) (allowed, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	known := allowed{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		from, to, ok := strings.Cut(line, " -> ")
		if !ok {
			return nil, fmt.Errorf("%s: %q is not like package/file.go -> file.go", name, line)
		}
		pkg := path.Dir(from)
		if known[pkg] == nil {
			known[pkg] = map[arrow]bool{}
		}
		known[pkg][arrow{path.Base(from), to}] = true
	}
	return known, nil
}

func writeAllowed(name string, graphs map[string]*graph, known allowed) error {
	text := arrowsHeader
	for _, pkg := range slices.Sorted(maps.Keys(graphs)) {
		for _, a := range graphs[pkg].back(known[pkg]) {
			text += pkg + "/" + a.from + " -> " + a.to + "\n"
		}
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// checkArrows returns the packages in which more arrows run back up than may,
// with those that are new.
func checkArrows(graphs map[string]*graph, known allowed) []string {
	var broken []string
	for _, pkg := range slices.Sorted(maps.Keys(graphs)) {
		g := graphs[pkg]
		back := g.back(known[pkg])
		if len(back) <= len(known[pkg]) {
			continue
		}
		text := fmt.Sprintf("%s: %d arrows run back up between its files, at most %d may. New:", pkg, len(back), len(known[pkg]))
		for _, a := range back {
			if !known[pkg][a] {
				text += fmt.Sprintf("\n\t%s names %s of %s; the way back is %s",
					a.from, g.arrows[a], a.to, strings.Join(g.way(a.to, a.from), " -> "))
			}
		}
		broken = append(broken, text+"\nMove what is named, or what names it, so that the files do not need each other in a circle. "+
			"If they must, `go test ./internal/archtest -run Arrows -update` allows it.")
	}
	return broken
}

// String has the names in the order of their lines.
func (n names) String() string {
	sorted := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[a]-n[b], strings.Compare(a, b)) })
	for i, name := range sorted {
		sorted[i] = fmt.Sprintf("%s (line %d)", name, n[name])
	}
	return strings.Join(sorted, ", ")
}

// way returns the shortest way along arrows, both ends included.
func (g *graph) way(from, to string) []string {
	ways := [][]string{{from}}
	seen := map[string]bool{from: true}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		last := way[len(way)-1]
		if last == to {
			return way
		}
		for _, next := range g.files {
			if _, points := g.arrows[arrow{last, next}]; points && !seen[next] {
				seen[next] = true
				ways = append(ways, append(slices.Clone(way), next))
			}
		}
	}
	return nil
}
