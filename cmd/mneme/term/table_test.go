package term

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

func TestTableFits(t *testing.T) {
	wide := &Table{
		Header: []string{"A", "ID", "PATH", "TEXT"}, Spare: []string{"ID"}, Shrink: []string{"TEXT", "PATH"}, Paths: []string{"PATH"},
	}
	wide.Add("1", "identification", "/long/path/to/a/file", "some text that is long")
	lines := append([][]string{wide.Header}, wide.Rows...)
	for columns, want := range map[int]string{
		0: "[1 14 20 22]", 100: "[1 14 20 22]", 50: "[1 -1 20 22]", 40: "[1 -1 20 15]", 30: "[1 -1 17 8]", 5: "[1 -1 8 8]",
	} {
		if got := fmt.Sprint(wide.fit(lines, columns)); got != want {
			t.Errorf("in %d columns: %s, want %s", columns, got, want)
		}
	}
	for _, c := range []struct {
		text  string
		front bool
		want  string
	}{
		{"abcdefgh", false, "abcdefgh"}, {"abcdefghi", false, "abcdefg…"}, {"abcdefghi", true, "…cdefghi"},
		{"記録記録記", false, "記録記…"}, {"記録記録記", true, "…記録記"}, {"e\u0301abcdefg", false, "e\u0301abcdefg"},
	} {
		if got := cut(c.text, 8, c.front); got != c.want {
			t.Errorf("cut(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// TestTableGoesOn: rows that are added after a print are printed below the others.
func TestTableGoesOn(t *testing.T) {
	var out strings.Builder
	a := &Console{Out: bufio.NewWriter(&out)}
	rows := &Table{Header: []string{"A", "B"}}
	rows.Add("long one", "1")
	a.PrintTable(rows)
	rows.Add("x", "2")
	a.PrintTable(rows)
	rows.Add("longer than before", "3")
	a.PrintTable(rows)
	if err := a.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "A         B\nlong one  1\nx         2\nlonger than before  3\n"
	if out.String() != want {
		t.Errorf("it is\n%swant\n%s", out.String(), want)
	}
}
