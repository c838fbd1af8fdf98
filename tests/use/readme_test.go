package use

import (
	"os"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestReadmeTour does what the README tells a new user to do.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, found := strings.Cut(string(doc), "<!-- tour")
	tour, _, ended := strings.Cut(tour, "<!-- end of tour -->")
	_, tour, fenced := strings.Cut(tour, "```sh\n")
	if !found || !ended || !fenced {
		t.Fatal("README.md has no tour")
	}
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	script := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(tour), "```"), "/mnt/memory", m.At)
	for line, shown := range map[string]string{"cat plan.md": "grep -q Friday plan.md", "ls go-src": "test -e go-src"} {
		// The mount hears of a command's commit within milliseconds, where nothing else wants the processors.
		if !strings.Contains(script, "\n"+line) {
			t.Errorf("the tour has no line %q", line)
		}
		script = strings.ReplaceAll(script, "\n"+line, "\nuntil "+shown+"; do sleep 0.05; done\n"+line)
	}
	out := m.Sh(t, script)
	for _, want := range []string{
		"./plan.md:1:Ship on Monday.\n", // grep
		"go-src/builder.go\n",           // grep -l
		"-Ship on Friday.\n+Ship on Monday.\n",
		"Ship on Friday.\n",                           // cat, after the restoration
		"< Ship on Monday.\n---\n> Ship on Friday.\n", // the past
		"deleted  /go-src/",                           // log of the store
		"\nbuilder.go\n",                              // ls, after the second restoration
		"modified  memver_",                           // log of the memory
		"session:" + m.Session,                        // the session
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the tour does not show %q; it prints:\n%s", want, out)
		}
	}
}
