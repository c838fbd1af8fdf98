package agent

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/adopt"
	"mneme/cmd/mneme/app"
	"mneme/internal/agentdirs"
)

// useHomeOf returns a home with a directory of memory, which is the only thing beside it.
func useHomeOf(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": dir + "/state", "XDG_DATA_HOME": dir + "/data", "XDG_CACHE_HOME": dir + "/cache", app.URLVariable: ""} {
		t.Setenv(name, value)
	}
	if err := os.MkdirAll(home+"/notes", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/notes/a.md", []byte("a\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	return home
}

// TestUseShowsNames holds that nothing a directory, file or project is called steers a terminal.
func TestUseShowsNames(t *testing.T) {
	h := useHomeOf(t)
	const hostile = "x\x1b[2J\ny"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found := &agentdirs.Found{Agent: adopt.DirAgent, Name: "notes", Dir: h + "/" + hostile, Warn: []string{hostile}}
	must(os.Mkdir(found.Dir, 0o700))
	must(os.WriteFile(found.Dir+"/run.sh", nil, 0o700))
	a := app.New(os.Stdin, os.Stdout, os.Stderr)
	var out bytes.Buffer
	a.Out, a.Color = bufio.NewWriter(&out), false
	at, err := app.Locate(nil)
	must(err)
	plan, err := adopt.NewPlan(t.Context(), &adopt.PlanOptions{At: at, MayBeMissing: true, Open: app.OpenURL}, found, "notes", false)
	must(err)
	plan.Record.Setting = &adopt.Setting{File: hostile, Key: []string{"k"}, After: hostile}
	must(printUse(a, plan, true))
	must(printUsed(a, &plan.Record))
	must(listUses(a, []*adopt.Record{&plan.Record}))
	must(a.Out.Flush())
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "\ny") || !strings.Contains(text, `x\x1b[2J\ny`) {
		t.Errorf("%q", text)
	}
}

// TestUseDryRun holds that to show what would be done, and what is, leaves nothing behind.
func TestUseDryRun(t *testing.T) {
	h := useHomeOf(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Dir(h)
	before, err := os.ReadDir(dir)
	must(err)
	a := app.New(os.Stdin, os.Stdout, os.Stderr)
	for _, c := range []*UseCmd{{Agent: h + "/notes", DryRun: true}, {Agent: h + "/none", DryRun: true}, {List: true}} {
		var out bytes.Buffer
		a.Out = bufio.NewWriter(&out)
		must(c.Run(t.Context(), a))
	}
	after, err := os.ReadDir(dir)
	must(err)
	if len(after) != len(before) {
		t.Errorf("there are %v, and there were %v", after, before)
	}
}
