package main

import (
	"runtime"

	"github.com/alecthomas/kong"

	"mneme/cmd/mneme/app"
)

type versionCmd struct{}

func (c *versionCmd) Run(a *app.App) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Version string `json:"version"`
			Commit  string `json:"commit,omitempty"`
			Go      string `json:"go"`
		}{app.Version(), app.Commit, runtime.Version()})
	}
	from := ""
	if app.Commit != "" {
		from = "commit " + app.Commit + ", "
	}
	a.Printf("mneme %s (%s%s %s/%s)\n", app.Version(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// versionFirst makes --version the command, in place of a command. It is no flag of the
// grammar, since cat has one of that name.
func versionFirst(args []string) {
	for i, arg := range args {
		switch arg {
		case "--json":
			continue
		case "--version", "-V":
			args[i] = "version"
		}
		return
	}
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Such as: store create. Default: mneme itself."`
}

func (c *helpCmd) Run(parsed *kong.Context) error {
	args := append(c.Command, "--help")
	_, err := parsed.Kong.Parse(args) // writes the help and ends the program
	return explainMisuse(parsed.Kong, args, err)
}
