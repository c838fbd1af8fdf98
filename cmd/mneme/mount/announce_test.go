package mount

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
	"mneme/daemon"
	"mneme/versionlog"
)

// TestPrintMounted: what is said to try can be pasted into a shell, wherever the mount is,
// and a directory's name changes nothing about a terminal.
func TestPrintMounted(t *testing.T) {
	var out bytes.Buffer
	a := app.New(os.Stdin, os.Stdout, os.Stderr)
	a.Out = bufio.NewWriter(&out)
	if err := printMounted(a, daemon.Mounted{Stores: []daemon.MountedStore{{Slug: "notes", Path: "/srv/it's \x1b[31m/notes"}}}, "end"); err != nil {
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

// TestMountAdvises: errors of a mount have the advice for agents.
func TestMountAdvises(t *testing.T) {
	advise := (&MountCmd{}).options(nil).Advise
	if got := advise(versionlog.ErrCorrupt); got != app.AdviseMount(versionlog.ErrCorrupt) || got == "" {
		t.Errorf("of damage: %q", got)
	}
}
