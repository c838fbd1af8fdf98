package main

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"

	"mneme/daemon"
)

// TestPrintMounted: what is said to try can be pasted into a shell, wherever the mount is,
// and a directory's name changes nothing about a terminal.
func TestPrintMounted(t *testing.T) {
	var out bytes.Buffer
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.Out = bufio.NewWriter(&out)
	if err := a.printMounted(daemon.Mounted{Stores: []daemon.MountedStore{{Slug: "notes", Path: "/srv/it's \x1b[31m/notes"}}}, "end"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"notes is mounted at /srv/it's \\x1b[31m/notes\n", " >> '/srv/it'\\''s \\x1b[31m/notes'/todo.md\n", "grep -r plants '/srv/it'\\''s \\x1b[31m/notes'\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%q", want, out.String())
		}
	}
}
