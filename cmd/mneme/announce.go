package main

import (
	"fmt"
	"os"
	"os/exec"

	"mneme/daemon"
)

// printMounted tells the person or the program that the mount is ready; end
// says how to end it.
func (a *app) printMounted(m daemon.Mounted, end string) error {
	if a.json {
		if err := a.printJSON(m); err != nil {
			return err
		}
		return a.out.Flush()
	}
	for _, s := range m.Stores {
		mode := ""
		if s.ReadOnly {
			mode = ", read-only"
		}
		if s.AsOf != nil {
			mode = fmt.Sprintf(", as it was after commit %d%s", *s.AsOf, mode)
		}
		a.printf("%s is mounted at %s%s\n", printable(s.Slug), a.paint(bold, printable(s.Path)), mode)
	}
	a.printLeft(m.Recovered)
	if m.Metrics != "" {
		a.printf("Metrics are at %s\n", m.Metrics)
	}
	a.printf("\nThree things to try, in another terminal:\n")
	first := m.Stores[0]
	path := shellWord(printable(first.Path))
	if first.ReadOnly {
		a.printf("  ls -l %s\n", path)
	} else {
		a.printf("  echo \"- water the plants\" >> %s/todo.md\n", path)
	}
	a.printf("  grep -r plants %s\n  %s log %s\n\n%s\n", path, a.command(), first.Slug, end)
	return a.out.Flush()
}

// command is how to call this mneme for the same stores.
func (a *app) command() string {
	name := "mneme"
	if _, err := exec.LookPath(name); err != nil {
		if self, err := os.Executable(); err == nil {
			name = self
		}
	}
	if a.url == nil || *a.url == os.Getenv(urlVariable) {
		return name
	}
	return name + " --url " + shellWord(*a.url)
}
