package main

import (
	"bufio"
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	for _, test := range [][2]string{
		{"plain é 記 →", "plain é 記 →"},
		{"\x1b[2J\r\n\t\x00", `\x1b[2J\r\n\t\x00`},
		{"\u009b31m", `\u009b31m`},         // the control sequence introducer in one character
		{"a\u202eb", `a\u202eb`},           // writes from right to left from here on
		{"\xff\xfe", `\xff\xfe`},           // not UTF-8
		{"\uFFFD", "\uFFFD"},               // the replacement character itself is harmless
		{"tag\U000E0041", `tag\U000e0041`}, // invisible
	} {
		if got := printable(test[0]); got != test[1] {
			t.Errorf("printable(%q) = %q, want %q", test[0], got, test[1])
		}
	}
}

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
