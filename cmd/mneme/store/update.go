package store

import (
	"context"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
)

type storeUpdateCmd struct {
	Store          string            `arg:"" help:"Its name or id."`
	Name           *string           `help:"What people call it. What it is called in commands and mounts stays."`
	Description    *string           `help:"What it is for, told to agents."`
	MaxMemoryBytes *term.ByteSize    `placeholder:"SIZE" help:"Size of the largest memory. Mounts obey it when they are made again."`
	Metadata       map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"A note that programs read, such as owner=me; may be given up to 16 times."`
	RemoveMetadata []string          `placeholder:"KEY" sep:"none" help:"A note that is taken away."`
	storeQuotaFlags
	policyFlags
}

func (c *storeUpdateCmd) Help() string {
	return `What is not given stays. A quota bounds all sessions and people from now on, in mounts that are there, too; deleting is always allowed. "mneme store show" says how much of it has been used.

Examples:

    mneme store update notes --description "What we learned about the build"
    mneme store update notes --quota-bytes 1GiB --quota-versions 10000
    mneme store update notes --quota-bytes 0
    mneme store update notes --guard shrink=50%,deletes=20/min
    mneme store update notes --secrets refuse
    mneme store update notes --keep-days 90 --keep-versions 20
    mneme store update notes --metadata owner=build-team --remove-metadata draft`
}

func (c *storeUpdateCmd) Run(ctx context.Context, a *app.App) error {
	return a.WithLibrary(ctx, app.Writing, func(lib *backend.Library) error {
		s, err := lib.FindStore(ctx, c.Store)
		if err != nil {
			return err
		}
		u := c.update()
		c.apply(&u)
		u.Name, u.Description, u.MaxMemoryBytes = c.Name, c.Description, (*int64)(c.MaxMemoryBytes)
		u.Metadata = map[string]*string{}
		for key, value := range c.Metadata {
			u.Metadata[key] = &value
		}
		for _, key := range c.RemoveMetadata {
			if _, set := c.Metadata[key]; set {
				return app.Usagef("--metadata sets %q and --remove-metadata takes it away; want one", key)
			}
			u.Metadata[key] = nil
		}
		if u.Empty() {
			return app.Usagef("nothing to change: say what, such as --quota-bytes 1GiB")
		}
		if s, err = lib.UpdateStore(ctx, s.ID, u, app.UserActor()); err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(view.NewStore(s))
		}
		a.Printf("%s\n", s.Slug)
		return nil
	})
}
