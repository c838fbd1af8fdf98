package main

import (
	"context"

	"mneme/memory"
)

type restoreCmd struct {
	Place   string `arg:"" help:"STORE:/path of a memory, which may be deleted."`
	Version string `arg:"" help:"Version id or sequence number of one of its versions."`
}

func (c *restoreCmd) Help() string {
	return `Writes a new version with the old content; nothing is lost from the history. Prints the version that now holds the content.

Example:

    mneme restore notes:/todo.md 7`
}

func (c *restoreCmd) Run(ctx context.Context, a *app) error {
	p, err := parseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.withStore(ctx, p.store, writing, func(st *memory.Store) error {
		v, err := st.Resolve(ctx, p.path, c.Version)
		if err != nil {
			return explainMissing(ctx, st, p.path, err)
		}
		restored, err := st.Restore(ctx, p.path, v)
		if err != nil {
			return err
		}
		return a.printVersion(st, restored)
	})
}
