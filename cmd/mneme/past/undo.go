package past

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/sessions"
	"mneme/cmd/mneme/term"
	"mneme/history"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/undo"
	"mneme/versionlog"
)

// UndoCmd is the command `mneme undo`.
type UndoCmd struct {
	Store   string `arg:"" help:"Its name or id, or a path in a mount."`
	Session string `required:"" placeholder:"ID" help:"The session whose changes are taken back, as 'mneme log' and .mneme/status show it."`
	Since   string `placeholder:"POINT" help:"Only what it has changed after that: a sequence number, HEAD~n, a time or an age. Default: all."`
	DryRun  bool   `name:"dry-run" help:"List what would change, and change nothing."`
	app.ConfirmFlag
}

func (c *UndoCmd) Help() string {
	return `Takes back what one session has written, renamed, made and removed, and keeps what others have done since. A memory that only the session has changed is again what it was before. Where others have written to it since, the lines of both are brought together. What does not come together stays as it is, and what it would be without the session is kept as a conflict ('mneme conflicts'), with exit code 4.

This is one commit. On AWS, where a commit takes about 97 files, it may be several; cut off, the same command goes on, if --since is a sequence number: ages and HEAD~n are other points by then. Done again, it finds nothing to do. An undo is a session of its own: undoing that, whose id is printed, brings back what was taken.

Examples:

    mneme undo notes --session sesn_2 --dry-run
    mneme undo notes --session sesn_2 --since 2h
    mneme undo notes --session sesn_2`
}

func (c *UndoCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Store)
	if err != nil {
		return err
	}
	if p.Path != "/" {
		return app.Usagef("%s is a place in a store; an undo is one of a whole store: want `mneme undo %s --session ID`", p, term.ShellWord(p.Store))
	}
	if err := p.ToChange(); err != nil {
		return err
	}
	var since *history.Point
	if c.Since != "" {
		point, err := history.ParsePoint(c.Since, time.Now())
		if err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		since = &point
	}
	a.Follow(p)
	opts := app.Writing
	if c.DryRun {
		opts = app.Reading
	}
	return a.WithLibrary(ctx, opts, func(lib *backend.Library) error {
		st, err := app.OpenStore(ctx, lib, p.Ref(), opts)
		if err != nil {
			return err
		}
		from := uint64(0)
		if since != nil {
			if from, err = history.ResolvePoint(ctx, st, *since); err != nil {
				return err
			}
		}
		if c.DryRun {
			return c.list(ctx, a, st, from)
		}
		return c.undo(ctx, a, lib, st, from)
	})
}

// list prints the planned changes.
func (c *UndoCmd) list(ctx context.Context, a *app.App, st *memory.Store, since uint64) error {
	plan, err := undo.PlanUndo(ctx, st, c.Session, since)
	if err != nil {
		return err
	}
	var conflicts []conflictLine
	for _, k := range plan.Conflicts {
		conflicts = append(conflicts, conflictLine{Type: "conflict", Path: k.Path, Why: k.Why})
	}
	return printStepList(ctx, a, st, plan.Steps, plan.Left, conflicts)
}

// undo undoes the session's changes, in a new session or in that of the credential.
func (c *UndoCmd) undo(ctx context.Context, a *app.App, lib *backend.Library, st *memory.Store, since uint64) error {
	own, err := sessions.OwnSession(lib, "")
	if err != nil {
		return err
	}
	s := session.New(st, &session.Options{ID: own, Conflicts: lib.Conflicts(st.Info().ID), Warn: a.Warn})
	defer s.Close()
	bar := a.Progress("undo")
	done, err := s.Undo(ctx, c.Session, since, &session.StepOptions{Confirmed: c.Confirm, Progress: bar.Show, Actor: app.UserActor()})
	bar.Clear()
	if err != nil {
		err = adviseSteps(err)
		if done != nil && done.Commits > 0 {
			again := fmt.Sprintf("mneme undo %s --session %s", term.ShellWord(st.Info().Slug), term.ShellWord(c.Session))
			if since > 0 {
				again += fmt.Sprintf(" --since %d", since)
			}
			err = fmt.Errorf("%w; of the undo %s made, by session %s: `%s` goes on", err, commitsAre(done.Commits), own, again)
		}
		return err
	}
	return c.print(a, st, own, done)
}

// undoJSON is the sum of the undone changes.
type undoJSON struct {
	stepsJSON
	Undone    string         `json:"undone_session_id"`
	By        []string       `json:"undone_before_by,omitempty"`
	Restored  []uint64       `json:"restored_before_by,omitempty"` // sequence numbers
	Conflicts []conflictLine `json:"conflicts,omitempty"`
}

func (c *UndoCmd) print(a *app.App, st *memory.Store, own string, done *session.Undone) error {
	var conflicts []conflictLine
	for _, k := range done.Conflicts {
		conflicts = append(conflicts, conflictLine{"conflict", max(0, k.ID), k.Path, k.Why})
	}
	store := st.Info().Slug
	if a.JSON {
		j := undoJSON{stepsJSON: newStepsJSON(st, "undo", &done.Steps), Undone: c.Session, By: done.By, Restored: done.Restored, Conflicts: conflicts}
		if done.Commits > 0 {
			j.SessionID = own
		}
		if err := a.PrintJSON(j); err != nil {
			return err
		}
	} else {
		stay := len(done.Conflicts) + len(done.Left)
		switch {
		case done.Commits > 0:
			a.Printf("%s: session %s is taken back: %s.\n", quote.Text(store), quote.Text(c.Session), changesText(&done.Steps))
			a.Printf("To take this back: mneme undo %s --session %s\n", quote.Text(term.ShellWord(store)), quote.Text(own))
		case stay > 0:
			a.Printf("%s: nothing was changed; what session %s did stays at %s:\n", quote.Text(store), quote.Text(c.Session), plural.Of(stay, "path"))
		default:
			a.Printf("%s: there is nothing to take back of session %s; nothing was changed.\n", quote.Text(store), quote.Text(c.Session))
		}
		for _, by := range done.By {
			a.Printf("Some of it was taken back before, by session %s: mneme undo %s --session %[3]s takes that back\n", quote.Text(by), quote.Text(term.ShellWord(store)), quote.Text(term.ShellWord(by)))
		}
		for _, seq := range done.Restored {
			a.Printf("Some of it was taken back before, by a restore: mneme show %s %d shows it\n", quote.Text(term.ShellWord(store)), seq)
		}
		if err := printConflicts(a, conflicts); err != nil {
			return err
		}
		if err := printLeftPaths(a, done.Left); err != nil {
			return err
		}
	}
	if n := len(done.Left) + len(done.Conflicts); n > 0 {
		if allErased(done.Left) && len(conflicts) == 0 {
			return fmt.Errorf("%w: %s stayed as they are, since what it takes to change them back was erased", versionlog.ErrConflict, plural.Of(n, "path"))
		}
		err := fmt.Errorf("%w: %s stayed as they are", versionlog.ErrConflict, plural.Of(n, "path"))
		if slices.ContainsFunc(conflicts, func(k conflictLine) bool { return k.N > 0 }) {
			err = fmt.Errorf("%w; `mneme conflicts list %s` has what they would be", err, term.ShellWord(store))
		}
		return err
	}
	return nil
}
