package main

import (
	"bufio"
	"errors"
	"strings"
	"testing"
)

// terminalApp writes as if to a terminal.
func terminalApp(out *strings.Builder) *app {
	return &app{out: bufio.NewWriter(out), terminal: true, color: true}
}

func TestDiffOnTerminal(t *testing.T) {
	var out strings.Builder
	a := terminalApp(&out)
	a.printDiff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+\ty\x1b[2J\n")
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := bold + "--- a" + reset + "\n" + bold + "+++ b" + reset + "\n" + cyan + "@@ -1 +1 @@" + reset + "\n" +
		red + "-x" + reset + "\n" + green + "+\ty\\x1b[2J" + reset + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestTableColors makes sure that what colours add does not push columns out
// of line.
func TestTableColors(t *testing.T) {
	var out strings.Builder
	a := terminalApp(&out)
	table := newLogTable("PATH")
	table.add("1", "now", "created", "/é", "user:a", "5", "")
	table.add("10", "now", "modified", "/bb", "user:a", "100", "m")
	a.printTable(table)
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(bold, "", green, "", yellow, "", reset, "").Replace(out.String())
	want := "SEQ  TIME  CHANGE    PATH  BY      SIZE  MESSAGE\n" +
		"  1  now   created   /é    user:a     5\n" +
		" 10  now   modified  /bb   user:a   100  m\n"
	if plain != want {
		t.Errorf("got\n%swant\n%s", plain, want)
	}
	if !strings.Contains(out.String(), green+"created"+reset+"   /é") {
		t.Errorf("no colour, or padding inside of it: %q", out.String())
	}
}

// TestOutputIsShown holds that tables, fields and errors have nothing of others'
// text in them that cannot be seen, and that an error is one line.
func TestOutputIsShown(t *testing.T) {
	var out strings.Builder
	a := terminalApp(&out)
	a.color = false
	table := newLogTable("PATH")
	table.add("1", "now", "created", "/x\u3164 ", "user:\u202e", "5", " m")
	a.printTable(table)
	a.printFields([][2]string{{"Place", "notes:/x\u2800 "}})
	a.err = a.out
	a.report(errors.New("one \u3164\x1b[2J\ntwo" + strings.Repeat(".", 1<<20)))
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	want := []string{
		`SEQ  TIME  CHANGE   PATH         BY           SIZE  MESSAGE`,
		`  1  now   created  "/x\u3164 "  user:\u202e     5  " m"`,
		`Place  "notes:/x\u2800 "`,
		`mneme: one \u3164\x1b[2J; two...`,
	}
	for i, want := range want {
		if len(lines) != 5 || len(lines[i]) > 10000 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("%d lines; line %d is %.200s, want %s", len(lines), i, lines[i], want)
		}
	}
}

// TestTableGoesOn: rows that are added after others were printed stand below them.
func TestTableGoesOn(t *testing.T) {
	var out strings.Builder
	a := &app{out: bufio.NewWriter(&out)}
	rows := &table{header: []string{"A", "B"}}
	rows.add("long one", "1")
	a.printTable(rows)
	rows.add("x", "2")
	a.printTable(rows)
	rows.add("longer than before", "3")
	a.printTable(rows)
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "A         B\nlong one  1\nx         2\nlonger than before  3\n"
	if out.String() != want {
		t.Errorf("it is\n%swant\n%s", out.String(), want)
	}
}
