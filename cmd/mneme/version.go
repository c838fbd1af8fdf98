package main

import (
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// What the Makefile writes here: a tag or short commit of the source, and the commit.
var version, commit string

// buildVersion says which mneme this is.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version // of `go install`
	}
	return "devel"
}

type versionCmd struct{}

func (c *versionCmd) Run(a *app) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Version string `json:"version"`
			Commit  string `json:"commit,omitempty"`
			Go      string `json:"go"`
		}{buildVersion(), commit, runtime.Version()})
	}
	from := ""
	if commit != "" {
		from = "commit " + commit + ", "
	}
	a.Printf("mneme %s (%s%s %s/%s)\n", buildVersion(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// versionFirst makes --version, where a command would stand, the command. It is
// no flag of the grammar, since cat has one of that name.
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
