package main

import (
	"context"

	"mneme/memory"
	"mneme/session"
)

type restoreCmd struct {
	Place   string `arg:"" help:"STORE:/path of a memory, which may be deleted."`
	Version string `arg:"" optional:"" help:"Version id or sequence number of one of its versions."`
	confirmFlag
}

func (c *restoreCmd) Help() string {
	return `Writes a new version with the old content; nothing is lost from the history. Prints the version that now holds the content.

Examples:

    mneme restore notes:/todo.md 7
    mneme restore notes:/todo.md@7`
}

func (c *restoreCmd) Run(ctx context.Context, a *app) error {
	p, err := parseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.withSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		path, version, err := oneVersion(ctx, st, p.path, c.Version)
		if err != nil {
			return err
		}
		if version == "" {
			return usagef("the version is missing; want `mneme restore %s VERSION`; `mneme log %[1]s` lists them", p.word())
		}
		v, err := resolveVersion(ctx, st, path, version)
		if err != nil {
			return explainMissing(ctx, st, path, err)
		}
		restored, err := s.Restore(ctx, path, v, &session.WriteOptions{Confirmed: c.Confirm})
		if err != nil {
			return err
		}
		return a.printVersion(st, restored)
	})
}
