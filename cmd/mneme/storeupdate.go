package main

import (
	"context"

	"mneme/memory"
	"mneme/versionlog"
)

type storeUpdateCmd struct {
	Store          string    `arg:"" help:"Its name or id."`
	Description    *string   `help:"What it is for, told to agents."`
	MaxMemoryBytes *byteSize `placeholder:"SIZE" help:"Size of the largest memory. Mounts obey it when they are made again."`
	storeQuotaFlags
}

func (c *storeUpdateCmd) Help() string {
	return `What is not given stays. A quota bounds all sessions and people from now on, in mounts that are there, too; deleting is always allowed. "mneme store show" says how much of it has been used.

Examples:

    mneme store update notes --description "What we learned about the build"
    mneme store update notes --quota-bytes 1GiB --quota-versions 10000
    mneme store update notes --quota-bytes 0`
}

func (c *storeUpdateCmd) Run(ctx context.Context, a *app) error {
	return a.withLibrary(ctx, writing, func(lib *memory.Library) error {
		s, err := lib.FindStore(ctx, c.Store)
		if err != nil {
			return err
		}
		u := c.update()
		u.Description, u.MaxMemoryBytes = c.Description, (*int64)(c.MaxMemoryBytes)
		if u == (versionlog.StoreUpdate{}) {
			return usagef("nothing to change: say what, such as --quota-bytes 1GiB")
		}
		if s, err = lib.UpdateStore(ctx, s.ID, u); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(newStoreJSON(s))
		}
		a.printf("%s\n", s.Slug)
		return nil
	})
}
