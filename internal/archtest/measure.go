package archtest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// measure is one number about how the mount is built; less is better.
type measure struct {
	name   string
	value  int
	note   string   // what was measured, where that is not always the same
	places []string // where what is counted stands
	figure bool     // it is told, and nothing comes of it
}

// mountPackages are those, with all below them, of which the mount is made.
var mountPackages = []string{"fusefs", "session"}

const measuresHeader = "# Numbers about how the mount is built, which may fall and not rise.\n" +
	"# Written by `go test ./internal/archtest -run Measures -update`.\n"

func readMeasures(name string) (map[string]int, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	most := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		number, what, _ := strings.Cut(line, " ")
		if most[what], err = strconv.Atoi(number); err != nil || what == "" {
			return nil, fmt.Errorf("%s: %q is not a number and what it measures", name, line)
		}
	}
	return most, nil
}

func writeMeasures(name string, all []measure) error {
	text := measuresHeader
	for _, m := range all {
		if !m.figure {
			text += fmt.Sprintln(m.value, m.name)
		}
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// checkMeasures returns what has risen.
func checkMeasures(all []measure, most map[string]int) []string {
	const allow = "`go test ./internal/archtest -run Measures -update` allows it"
	var broken []string
	gone := maps.Clone(most)
	for _, m := range all {
		delete(gone, m.name)
		limit, known := most[m.name]
		switch {
		case m.figure:
		case !known:
			broken = append(broken, fmt.Sprintf("%s: %d, and there is no limit: %s", m.name, m.value, allow))
		case m.value > limit:
			text := fmt.Sprintf("%s: %d, at most %d may be; %s.", m.name, m.value, limit, allow)
			broken = append(broken, strings.Join(append([]string{text}, m.places...), "\n\t"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		broken = append(broken, fmt.Sprintf("%s is limited and not measured; %s", name, allow))
	}
	slices.SortStableFunc(broken, cmp.Compare[string])
	return broken
}
