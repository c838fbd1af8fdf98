package okf

import (
	"strings"
	"testing"

	"mneme/versionlog"
)

// TestDeepMatter: front matter that nests deeply is not parsed, which would take minutes, and is kept as
// text.
func TestDeepMatter(t *testing.T) {
	var indented strings.Builder
	for i := range 300 {
		indented.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, c := range map[string]struct {
		matter string
		deep   bool
	}{
		"sequences":    {strings.Repeat("[", 60_000), true},
		"over lines":   {strings.Repeat("a: [\n", 10_000), true},
		"mappings":     {strings.Repeat("{a: ", 15_000), true},
		"in a line":    {strings.Repeat("- ", 30_000), true},
		"keys":         {strings.Repeat("? ", 30_000), true},
		"tags":         {"a: " + strings.Repeat("!!a ", 15_000), true},
		"indents":      {indented.String(), true},
		"ordinary":     {"a:\n  b:\n    - [1, {c: 2}]\n" + strings.Repeat("d: [x, y] - and * more\n", 1000), false},
		"a long list":  {"a:\n" + strings.Repeat("  - x\n  - y: z\n", 2000), false},
		"many closing": {"a: ']]]]]]'\n", false},
	} {
		if got := isDeep([]byte(c.matter)); got != c.deep {
			t.Errorf("%s: %v", name, got)
		}
		if !c.deep {
			continue
		}
		text := "---\n" + c.matter + "\n---\nbody"
		if _, data := New("notes", nil).Add(versionlog.Version{Path: "/a.md"}, []byte(text)); !strings.HasPrefix(string(data), "---\ntype: "+Type) || !strings.HasSuffix(string(data), text) {
			t.Errorf("%s: it is not kept as text: %.80q", name, data)
		}
	}
}
