package past

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/view"
	"mneme/history"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/undo"
	"mneme/versionlog"
)

// RestoreCmd is the command `mneme restore`.
type RestoreCmd struct {
	Place   string `arg:"" help:"STORE:/path of a memory, which may be deleted; with --at also of a directory, or STORE."`
	Version string `arg:"" optional:"" help:"Version id or sequence number of one of its versions."`
	At      string `placeholder:"POINT" help:"Make all that is at the place, or was, what it was then: a sequence number, HEAD~n, a time or an age."`
	Yes     bool   `help:"Do not ask before the whole store is emptied."`
	DryRun  bool   `name:"dry-run" help:"With --at: list what would change, and change nothing."`
	app.ConfirmFlag
}

func (c *RestoreCmd) Help() string {
	return `With a version, writes a new version with the old content, and prints it.

With --at, a memory, a directory or the whole store becomes what it was right after that commit, or at that time: what has been changed is changed back, what has been removed comes back, what has been renamed has its old name, and what has been made since goes. This is one commit. On AWS, where a commit takes about 97 files, it may be several; cut off, the same command goes on. What somebody else changes meanwhile is left, and named, with exit code 4.

Before a store is emptied that has memories, as --at 0 does, mneme asks on a terminal, and elsewhere wants --yes.

Nothing is lost from the history. To take a restore back, restore to the sequence number before it, which is printed.

Examples:

    mneme restore notes:/todo.md 7
    mneme restore notes:/todo.md@7
    mneme restore notes:/projects/ --at yesterday --dry-run
    mneme restore notes:/todo.md --at HEAD~3
    mneme restore notes --at 7`
}

func (c *RestoreCmd) Run(ctx context.Context, a *app.App) error {
	switch {
	case c.At != "" && c.Version != "":
		return app.Usagef("%s is a version, and --at %s a point; want one of the two", c.Version, c.At)
	case c.At != "":
		return c.toPoint(ctx, a)
	case c.DryRun:
		return app.Usagef("--dry-run is for --at; `mneme diff` shows what a version would change")
	}
	p, err := app.ParseMemory(c.Place)
	if err != nil {
		return err
	}
	return a.WithSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		path, version, err := app.OneVersion(ctx, st, p.Path, c.Version)
		if err != nil {
			return err
		}
		if version == "" {
			return app.Usagef("the version is missing; want `mneme restore %s VERSION`; `mneme log %[1]s` lists them", p.Word())
		}
		v, err := view.ResolveVersion(ctx, st, path, version)
		if err != nil {
			return app.ExplainMissing(ctx, st, path, err)
		}
		restored, err := s.Restore(ctx, path, v, &session.WriteOptions{Confirmed: c.Confirm})
		if err != nil {
			return err
		}
		return view.PrintVersion(a, st, restored)
	})
}

// toPoint restores the place to a point.
func (c *RestoreCmd) toPoint(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	if err := p.ToChange(); err != nil {
		return err
	}
	point, err := history.ParsePoint(c.At, time.Now())
	if err != nil {
		return err
	}
	if c.DryRun {
		return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
			seq, err := history.ResolvePoint(ctx, st, point)
			if err != nil {
				return err
			}
			plan, err := undo.PlanRestore(ctx, st, p.Path, seq, nil)
			if err != nil {
				return app.ExplainMissing(ctx, st, p.Path, err)
			}
			if err := printStepList(ctx, a, st, plan.Steps, plan.Left, nil); err != nil || a.JSON {
				return err
			}
			if n, err := emptied(ctx, st, plan.Steps); err != nil || n > 0 {
				a.Printf("This empties the store: --yes does it without being asked.\n")
				return err
			}
			return nil
		})
	}
	return a.WithSessionAt(ctx, p, func(st *memory.Store, s *session.Session) error {
		seq, err := history.ResolvePoint(ctx, st, point)
		if err != nil {
			return err
		}
		at := app.Place{Store: st.Info().Slug, Path: p.Path}
		if !c.Yes {
			if err := c.askToEmpty(ctx, a, st, at, seq); err != nil {
				return app.ExplainMissing(ctx, st, p.Path, err)
			}
		}
		bar := a.Progress("restore")
		done, err := s.RestoreTree(ctx, p.Path, seq, &session.StepOptions{Confirmed: c.Confirm, Progress: bar.Show})
		bar.Clear()
		if err != nil {
			err = adviseSteps(app.ExplainMissing(ctx, st, p.Path, err))
			if done != nil && done.Commits > 0 {
				err = fmt.Errorf("%w; of the restore %s made: `mneme restore %s --at %d` goes on", err, commitsAre(done.Commits), at.Word(), seq)
			}
			return err
		}
		return c.printRestored(a, st, at, seq, done)
	})
}

// askToEmpty asks before a restore that removes all memories of a store.
func (c *RestoreCmd) askToEmpty(ctx context.Context, a *app.App, st *memory.Store, at app.Place, seq uint64) error {
	plan, err := undo.PlanRestore(ctx, st, at.Path, seq, nil)
	if err != nil {
		return err
	}
	n, err := emptied(ctx, st, plan.Steps)
	if err != nil || n == 0 {
		return err
	}
	return a.Confirm(fmt.Sprintf("after commit %d %s had no memories; this removes all that the store has: %s", seq, at, plural.Of(n, "memory")), at.Store)
}

// emptied returns the number of memories of a store if steps remove all of them, else 0.
func emptied(ctx context.Context, st *memory.Store, steps []undo.Step) (int, error) {
	gone := map[string]bool{}
	for i := range steps {
		s := &steps[i]
		switch {
		case strings.HasSuffix(s.Path(), "/"):
		case s.To != nil:
			return 0, nil
		default:
			gone[s.Path()] = true
		}
	}
	for v, err := range st.Tree(ctx, "/") {
		if err != nil || !v.IsDir() && !gone[v.Path] {
			return 0, err
		}
	}
	return len(gone), nil
}

func (c *RestoreCmd) printRestored(a *app.App, st *memory.Store, at app.Place, seq uint64, done *session.Steps) error {
	switch {
	case a.JSON:
		j := newStepsJSON(st, "restore", done)
		j.Seq = &seq
		if err := a.PrintJSON(j); err != nil {
			return err
		}
	case done.Commits == 0 && len(done.Left) == 0:
		a.Printf("%s is what it was after commit %d; nothing was changed.\n", quote.Text(at.String()), seq)
	default:
		if done.Commits > 0 {
			a.Printf("%s is what it was after commit %d: %s.\n", quote.Text(at.String()), seq, changesText(done))
			a.Printf("To take this back: mneme restore %s --at %d\n", quote.Text(at.Word()), done.First-1)
		}
		if err := printLeftPaths(a, done.Left); err != nil {
			return err
		}
	}
	n := len(done.Left)
	switch {
	case n == 0:
		return nil
	case allErased(done.Left):
		return fmt.Errorf("%w: %s of %s stayed as they are, since what they were then was erased", versionlog.ErrConflict, plural.Of(n, "path"), at)
	}
	return fmt.Errorf("%w: %s of %s stayed as they are; if they are to be restored, too, `mneme restore %s --at %d` does that",
		versionlog.ErrConflict, plural.Of(n, "path"), at, at.Word(), seq)
}
