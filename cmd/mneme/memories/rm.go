package memories

import (
	"context"
	"errors"
	"fmt"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/view"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// RmCmd is the command `mneme rm`.
type RmCmd struct {
	Place     string `arg:"" help:"STORE:/path of a memory, or with -r of a directory."`
	Recursive bool   `short:"r" xor:"what" help:"Everything at and below the path, in one commit."`
	Yes       bool   `help:"Do not ask before the whole store is emptied."`
	IfVersion string `xor:"what" placeholder:"V" help:"Only if this is the current version: an id or sequence number."`
	app.ConfirmFlag
}

func (c *RmCmd) Help() string {
	return `What is removed stays in the history; restore brings it back. Before -r empties a whole store, STORE:/, mneme asks on a terminal, and elsewhere wants --yes.

Examples:

    mneme rm notes:/old.md
    mneme rm -r notes:/drafts`
}

func (c *RmCmd) Run(ctx context.Context, a *app.App) error {
	if c.Recursive {
		return c.removeTree(ctx, a)
	}
	p, err := app.ParseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.WithSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		opts := &session.WriteOptions{Confirmed: c.Confirm}
		if c.IfVersion != "" {
			expect, err := expectVersion(ctx, st, p.Path, c.IfVersion)
			if err != nil {
				return err
			}
			opts.Expect = &expect
		}
		v, err := s.Remove(ctx, p.Path, opts)
		if errors.Is(err, versionlog.ErrNotFound) && app.IsDir(ctx, st, p.Path) {
			return fmt.Errorf("%s is a directory, not a memory: %w; `mneme rm -r %s` removes everything below it", p, versionlog.ErrNotFound, p.Word())
		}
		if err != nil {
			return app.ExplainMissing(ctx, st, p.Path, err)
		}
		if !a.JSON {
			return nil
		}
		return view.PrintVersion(a, st, v)
	})
}

func (c *RmCmd) removeTree(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	return a.WithSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		if p.Path == "/" && !c.Yes {
			if err := a.Confirm(fmt.Sprintf("%s is the whole store; this removes everything in it", p), st.Info().Slug); err != nil {
				return err
			}
		}
		commit, err := s.RemoveTree(ctx, p.Path, &session.WriteOptions{Confirmed: c.Confirm})
		if err != nil {
			return app.ExplainMissing(ctx, st, p.Path, err)
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
