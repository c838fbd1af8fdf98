package mount

import (
	"fmt"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/daemon"
	"mneme/internal/quote"
)

// printMounted reports that the mount is ready. end says how to end it.
func printMounted(a *app.App, m daemon.Mounted, end string) error {
	if a.JSON {
		if err := a.PrintJSON(m); err != nil {
			return err
		}
		return a.Out.Flush()
	}
	for _, s := range m.Stores {
		mode := ""
		if s.ReadOnly {
			mode = ", read-only"
		}
		if s.AsOf != nil {
			mode = fmt.Sprintf(", as it was after commit %d%s", *s.AsOf, mode)
		}
		a.Printf("%s is mounted at %s%s\n", quote.Text(s.Slug), a.Paint(term.Bold, quote.Text(s.Path)), mode)
	}
	view.PrintLeft(a, m.Recovered)
	if m.Metrics != "" {
		a.Printf("Metrics are at %s\n", m.Metrics)
	}
	a.Printf("\nThree things to try, in another terminal:\n")
	first := m.Stores[0]
	path := term.ShellWord(quote.Text(first.Path))
	if first.ReadOnly {
		a.Printf("  ls -l %s\n", path)
	} else {
		a.Printf("  echo \"- water the plants\" >> %s/todo.md\n", path)
	}
	a.Printf("  grep -r plants %s\n  %s log %s\n\n%s\n", path, a.Command(), first.Slug, end)
	return a.Out.Flush()
}
