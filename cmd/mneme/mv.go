package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/backend"
	"mneme/jsonview"
	"mneme/versionlog"
)

type mvCmd struct {
	From string `arg:"" help:"STORE:/path of a memory or directory."`
	To   string `arg:"" help:"STORE:/path of its new place, where nothing may be."`
}

func (c *mvCmd) Help() string {
	return `A memory keeps its history under its new name. A directory moves in one commit.

Examples:

    mneme mv notes:/todo.md notes:/done/2026-11.md
    mneme mv notes:/drafts notes:/published`
}

func (c *mvCmd) Run(ctx context.Context, a *app) error {
	from, err := parseDir(c.From)
	if err != nil {
		return err
	}
	to, err := parseMemory(c.To)
	if err != nil {
		return err
	}
	if err := cmp.Or(from.toChange(), to.toChange()); err != nil {
		return err
	}
	if from.path == "/" {
		return usagef("%q is a whole store and cannot be moved", c.From)
	}
	switch {
	case from.String() == to.String():
		return usagef("%q is where it is already", c.To)
	case strings.HasPrefix(to.path, from.path+"/") && from.store == to.store:
		return usagef("%q lies in %q, and nothing can be moved into itself", c.To, c.From)
	}
	if from.url != to.url && from.url != "" && to.url != "" {
		return usagef("%s and %s are stores of different places; mv works within one, `mneme cat` and `mneme write` copy between two", from, to)
	}
	a.follow(from)
	a.follow(to)
	return a.withLibrary(ctx, writing, func(lib *backend.Library) error {
		st, err := openStore(ctx, lib, from.ref(), writing)
		if err != nil {
			return err
		}
		target, err := lib.FindStore(ctx, to.ref())
		if err != nil {
			return err
		}
		if target.ID != st.Info().ID {
			return usagef("%s and %s are different stores; mv works within one, `mneme cat` and `mneme write` copy between two", st.Info().Slug, target.Slug)
		}
		s := a.newSession(lib, st)
		defer s.Close()
		commit, err := s.Rename(ctx, from.path, to.path, nil)
		switch {
		case errors.Is(err, versionlog.ErrConflict), errors.Is(err, versionlog.ErrOverlap):
			return fmt.Errorf("%w; nothing may be where it is moved to", err)
		case err != nil:
			return explainMissing(ctx, st, from.path, err)
		case !a.JSON:
			return nil
		}
		return a.PrintJSON(jsonview.NewCommit(commit))
	})
}
