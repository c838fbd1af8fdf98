package past

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
)

// terminalApp writes as if to a terminal.
func terminalApp(out *strings.Builder) *app.App {
	return &app.App{Console: &term.Console{Out: bufio.NewWriter(out), IsTerminal: true, Color: true}}
}

// TestTableColors makes sure that what colours add does not push columns out
// of line.
func TestTableColors(t *testing.T) {
	var out strings.Builder
	a := terminalApp(&out)
	table := newLogTable("PATH")
	table.Add("1", "now", "created", "/é", "user:a", "5", "")
	table.Add("10", "now", "modified", "/bb", "user:a", "100", "m")
	a.PrintTable(table)
	if err := a.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(term.Bold, "", term.Green, "", term.Yellow, "", term.Reset, "").Replace(out.String())
	want := "SEQ  TIME  CHANGE    PATH  BY      SIZE  MESSAGE\n" +
		"  1  now   created   /é    user:a     5\n" +
		" 10  now   modified  /bb   user:a   100  m\n"
	if plain != want {
		t.Errorf("got\n%swant\n%s", plain, want)
	}
	if !strings.Contains(out.String(), term.Green+"created"+term.Reset+"   /é") {
		t.Errorf("no colour, or padding inside of it: %q", out.String())
	}
}

// TestOutputIsShown holds that tables, fields and errors have nothing of others'
// text in them that cannot be seen, and that an error is one line.
func TestOutputIsShown(t *testing.T) {
	var out strings.Builder
	a := terminalApp(&out)
	a.Color = false
	table := newLogTable("PATH")
	table.Add("1", "now", "created", "/x\u3164 ", "user:\u202e", "5", " m")
	a.PrintTable(table)
	a.PrintFields([][2]string{{"Place", "notes:/x\u2800 "}})
	a.Err = a.Out
	a.Report(errors.New("one \u3164\x1b[2J\ntwo" + strings.Repeat(".", 1<<20)))
	if err := a.Out.Flush(); err != nil {
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
