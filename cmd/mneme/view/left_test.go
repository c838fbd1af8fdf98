package view

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
	"mneme/daemon"
)

// The texts that a mount has kept are named as far as a person reads them, and listed by a
// command.
func TestPrintLeft(t *testing.T) {
	var out bytes.Buffer
	a := app.New(os.Stdin, os.Stdout, os.Stderr)
	a.Out = bufio.NewWriter(&out)
	var files []daemon.LeftFile
	for i := range 1000 {
		files = append(files, daemon.LeftFile{Store: "notes", Path: "/f", SessionID: "s", Conflict: i + 1})
	}
	PrintLeft(a, append(files, daemon.LeftFile{Store: "book", Path: "/g", SessionID: "s", Conflict: 1}, daemon.LeftFile{Store: "notes", Path: "/back", SessionID: "t"}))
	if err := a.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 8 || !strings.Contains(out.String(), "995 more are kept") ||
		!strings.Contains(out.String(), "conflicts list notes`") || !strings.Contains(out.String(), "book:/g") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
