package main

import (
	"context"
	"errors"
	"fmt"

	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

type rmCmd struct {
	Place     string `arg:"" help:"STORE:/path of a memory, or with -r of a directory."`
	Recursive bool   `short:"r" xor:"what" help:"Everything at and below the path, in one commit."`
	Yes       bool   `help:"Do not ask before the whole store is emptied."`
	IfVersion string `xor:"what" placeholder:"V" help:"Only if this is the current version: an id or sequence number."`
	confirmFlag
}

func (c *rmCmd) Help() string {
	return `What is removed stays in the history; restore brings it back. Before -r empties a whole store, STORE:/, mneme asks on a terminal, and elsewhere wants --yes.

Examples:

    mneme rm notes:/old.md
    mneme rm -r notes:/drafts`
}

func (c *rmCmd) Run(ctx context.Context, a *app) error {
	if c.Recursive {
		return c.removeTree(ctx, a)
	}
	p, err := parseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.withSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		opts := &session.WriteOptions{Confirmed: c.Confirm}
		if c.IfVersion != "" {
			expect, err := expectVersion(ctx, st, p.path, c.IfVersion)
			if err != nil {
				return err
			}
			opts.Expect = &expect
		}
		v, err := s.Remove(ctx, p.path, opts)
		if errors.Is(err, versionlog.ErrNotFound) && isDir(ctx, st, p.path) {
			return fmt.Errorf("%s is a directory, not a memory: %w; `mneme rm -r %s` removes everything below it", p, versionlog.ErrNotFound, p.word())
		}
		if err != nil {
			return explainMissing(ctx, st, p.path, err)
		}
		if !a.JSON {
			return nil
		}
		return a.printVersion(st, v)
	})
}

func (c *rmCmd) removeTree(ctx context.Context, a *app) error {
	p, err := parseDir(c.Place)
	if err != nil {
		return err
	}
	return a.withSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		if p.path == "/" && !c.Yes {
			if err := a.Confirm(fmt.Sprintf("%s is the whole store; this removes everything in it", p), st.Info().Slug); err != nil {
				return err
			}
		}
		commit, err := s.RemoveTree(ctx, p.path, &session.WriteOptions{Confirmed: c.Confirm})
		if err != nil {
			return explainMissing(ctx, st, p.path, err)
		}
		if a.JSON {
			return a.PrintJSON(jsonview.NewCommit(commit))
		}
		n := 0
		for i := range commit.Versions {
			if !commit.Versions[i].IsDir() {
				n++
			}
		}
		a.Printf("%s removed from %s in one commit, sequence number %d; the history keeps them.\n",
			plural.Of(n, "memory"), quote.Text(p.String()), commit.Seq)
		return nil
	})
}
