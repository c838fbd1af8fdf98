package term

import (
	"bufio"
	"strings"
	"testing"
)

func TestDiffOnTerminal(t *testing.T) {
	var out strings.Builder
	a := &Console{Out: bufio.NewWriter(&out), IsTerminal: true, Color: true}
	a.PrintDiff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+\ty\x1b[2J\n")
	if err := a.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := Bold + "--- a" + Reset + "\n" + Bold + "+++ b" + Reset + "\n" + Cyan + "@@ -1 +1 @@" + Reset + "\n" +
		Red + "-x" + Reset + "\n" + Green + "+\ty\\x1b[2J" + Reset + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
