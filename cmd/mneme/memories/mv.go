package memories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/jsonview"
	"mneme/versionlog"
)

// MvCmd is the command `mneme mv`.
type MvCmd struct {
	From string `arg:"" help:"STORE:/path of a memory or directory."`
	To   string `arg:"" help:"STORE:/path of its new place, where nothing may be."`
}

func (c *MvCmd) Help() string {
	return `A memory keeps its history under its new name. A directory moves in one commit.

Examples:

    mneme mv notes:/todo.md notes:/done/2026-11.md
    mneme mv notes:/drafts notes:/published`
}

func (c *MvCmd) Run(ctx context.Context, a *app.App) error {
	from, err := app.ParseDir(c.From)
	if err != nil {
		return err
	}
	to, err := app.ParseMemory(c.To)
	if err != nil {
		return err
	}
	if err := cmp.Or(from.ToChange(), to.ToChange()); err != nil {
		return err
	}
	if from.Path == "/" {
		return app.Usagef("%q is a whole store and cannot be moved", c.From)
	}
	switch {
	case from.String() == to.String():
		return app.Usagef("%q is where it is already", c.To)
	case strings.HasPrefix(to.Path, from.Path+"/") && from.Store == to.Store:
		return app.Usagef("%q lies in %q, and nothing can be moved into itself", c.To, c.From)
	}
	if from.URL != to.URL && from.URL != "" && to.URL != "" {
		return app.Usagef("%s and %s are stores of different places; mv works within one, `mneme cat` and `mneme write` copy between two", from, to)
	}
	a.Follow(from)
	a.Follow(to)
	return a.WithLibrary(ctx, app.Writing, func(lib *backend.Library) error {
		st, err := app.OpenStore(ctx, lib, from.Ref(), app.Writing)
		if err != nil {
			return err
		}
		target, err := lib.FindStore(ctx, to.Ref())
		if err != nil {
			return err
		}
		if target.ID != st.Info().ID {
			return app.Usagef("%s and %s are different stores; mv works within one, `mneme cat` and `mneme write` copy between two", st.Info().Slug, target.Slug)
		}
		s := a.NewSession(lib, st)
		defer s.Close()
		commit, err := s.Rename(ctx, from.Path, to.Path, nil)
		switch {
		case errors.Is(err, versionlog.ErrConflict), errors.Is(err, versionlog.ErrOverlap):
			return fmt.Errorf("%w; nothing may be where it is moved to", err)
		case err != nil:
			return app.ExplainMissing(ctx, st, from.Path, err)
		case !a.JSON:
			return nil
		}
		return a.PrintJSON(jsonview.NewCommit(commit))
	})
}
