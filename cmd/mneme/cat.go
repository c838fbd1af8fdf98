package main

import (
	"context"

	"mneme/memory"
	"mneme/versionlog"
)

type catCmd struct {
	Place   string `arg:"" help:"STORE:/path of a memory."`
	Version string `placeholder:"V" help:"Version id or sequence number. Default: the current one."`
}

func (c *catCmd) Help() string {
	return `Examples:

    mneme cat notes:/todo.md
    mneme cat notes:/todo.md --version 7`
}

func (c *catCmd) Run(ctx context.Context, a *app) error {
	p, err := parseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.withStore(ctx, p.store, reading, func(st *memory.Store) error {
		v, err := c.version(ctx, st, p.path)
		if err != nil {
			return explainMissing(ctx, st, p.path, err)
		}
		data, err := st.Content(ctx, v)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(newContentJSON(st.Info().ID, v, data))
		}
		_, err = a.out.Write(data)
		return err
	})
}

func (c *catCmd) version(ctx context.Context, st *memory.Store, path string) (versionlog.Version, error) {
	if c.Version == "" {
		return st.Head(ctx, path)
	}
	return st.Resolve(ctx, path, c.Version)
}
