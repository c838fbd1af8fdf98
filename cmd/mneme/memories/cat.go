package memories

import (
	"context"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/memory"
	"mneme/versionlog"
)

// CatCmd is the command `mneme cat`.
type CatCmd struct {
	Place   string `arg:"" help:"STORE:/path of a memory, or with @V of a version of it."`
	Version string `placeholder:"V" help:"Version id, sequence number, or point of its history, such as yesterday. Default: the current one."`
	Raw     bool   `help:"Write the bytes as they are to a terminal, too."`
}

func (c *CatCmd) Help() string {
	return `On a terminal, control characters and others that cannot be seen are written as escapes; what goes elsewhere is the bytes as they are.

Examples:

    mneme cat notes:/todo.md
    mneme cat notes:/todo.md@7
    mneme cat notes:/todo.md --version 7
    mneme cat notes:/todo.md --version HEAD~3`
}

func (c *CatCmd) Run(ctx context.Context, a *app.App) error {
	return view.WithVersion(ctx, a, c.Place, c.Version, func(st *memory.Store, _ app.Place, v versionlog.Version) error {
		data, err := st.Content(ctx, v)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(view.NewContent(st.Info().ID, v, data))
		}
		if a.IsTerminal && !c.Raw {
			for line := range strings.Lines(string(data)) {
				a.Printf("%s", term.PrintableLine(line))
			}
			return nil
		}
		_, err = a.Out.Write(data)
		return err
	})
}
