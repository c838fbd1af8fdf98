package memories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/history"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// ConflictsCmd is the command `mneme conflicts`.
type ConflictsCmd struct {
	List    conflictsListCmd    `cmd:"" help:"List what is kept of writes that lost a race."`
	Show    conflictsShowCmd    `cmd:"" help:"Show one, and how its text differs from what was there instead."`
	Diff    conflictsDiffCmd    `cmd:"" help:"Compare what was written with what was there instead, or with what it was based on."`
	Resolve conflictsResolveCmd `cmd:"" help:"Decide what the memory is to be, and forget the conflict."`
	Dismiss conflictsDismissCmd `cmd:"" help:"Settle one without a change: it is not listed any more."`
}

func (c *ConflictsCmd) Help() string {
	return `When two sessions change a memory, the second write fails. What it would have written is kept here for 30 days, with what it was based on and what was there instead. A mount shows the same below .mneme/conflicts.

A conflict is settled when its session writes to the path again, or when it is dismissed: here, or by 'rm -r .mneme/conflicts/7' in a mount of its session. A settled one can still be shown and resolved.

Examples:

    mneme conflicts list notes
    mneme conflicts diff notes 7
    mneme conflicts resolve notes 7 --take merge
    mneme conflicts dismiss notes 7`
}

// withConflicts opens a store and its conflicts, and closes them after do.
func withConflicts(ctx context.Context, a *app.App, ref string, opts backend.Options, do func(*memory.Store, *session.Conflicts) error) error {
	return a.WithLibrary(ctx, opts, func(lib *backend.Library) error {
		st, err := app.OpenStore(ctx, lib, ref, opts)
		if err != nil {
			return err
		}
		s := a.NewSession(lib, st)
		defer s.Close()
		return do(st, s.ConflictsForPeople())
	})
}

type conflictsListCmd struct {
	Store string `arg:"" help:"Its name or id."`
	All   bool   `help:"List the settled ones, too."`
}

func (c *conflictsListCmd) Run(ctx context.Context, a *app.App) error {
	return withConflicts(ctx, a, c.Store, app.Reading, func(_ *memory.Store, kept *session.Conflicts) error {
		list, err := kept.List(c.All)
		if err != nil {
			return err
		}
		t := &term.Table{Header: []string{"N", "TIME", "PATH", "SESSION", "SIZE", "WHY"}, Right: []string{"N", "SIZE"},
			Shrink: []string{"WHY", "SESSION", "PATH"}, Paths: []string{"PATH"}}
		for _, about := range list {
			if a.JSON {
				if err := a.PrintJSON(about); err != nil {
					return err
				}
				continue
			}
			t.Add(strconv.Itoa(about.ID), term.LocalTime(about.Time), about.Path, about.Session, strconv.FormatInt(about.Size, 10), whyOf(about))
		}
		if len(t.Rows) > 0 {
			a.PrintTable(t)
		}
		return nil
	})
}

// whyOf says why a conflict arose and, if it is settled, how.
func whyOf(about conflict.About) string {
	if about.Settled.IsZero() {
		return about.Why
	}
	return "settled (" + about.How + "): " + about.Why
}

// conflictArg is a conflict on the command line.
type conflictArg struct {
	Store string     `arg:"" help:"Its name or id."`
	N     term.Count `arg:"" help:"The conflict's number, as in 'mneme conflicts list'."`
}

type conflictsShowCmd struct {
	conflictArg
}

func (c *conflictsShowCmd) Help() string {
	return `With --json the three texts come along, below "texts": base, theirs and yours; null where there was no memory.

Example:

    mneme conflicts show notes 7`
}

func (c *conflictsShowCmd) Run(ctx context.Context, a *app.App) error {
	return withConflicts(ctx, a, c.Store, app.Reading, func(_ *memory.Store, kept *session.Conflicts) error {
		about, texts, err := c.read(kept)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(newConflictJSON(about, texts))
		}
		side := func(s *conflict.Side) string {
			if s == nil {
				return "no memory"
			}
			return fmt.Sprintf("%s (sequence %d, by %s, %s)", s.Version, s.Seq, s.Actor, term.LocalTime(s.Time))
		}
		a.PrintFields([][2]string{
			{"Conflict", strconv.Itoa(about.ID)}, {"Place", about.Store + ":" + about.Path}, {"Time", term.LocalTime(about.Time)},
			{"Session", about.Session}, {"Why", whyOf(about)}, {"Based on", side(about.Base)}, {"Instead", side(about.Theirs)},
		})
		a.Printf("\n")
		a.PrintDiff(history.Diff("theirs", "yours", texts.Theirs, texts.Yours))
		return nil
	})
}

type conflictJSON struct {
	conflict.About
	Texts map[string]*string `json:"texts"`
}

func newConflictJSON(about conflict.About, texts conflict.Texts) conflictJSON {
	text := func(data []byte) *string {
		if data == nil {
			return nil
		}
		s := string(data)
		return &s
	}
	return conflictJSON{about, map[string]*string{
		conflict.BaseFile: text(texts.Base), conflict.TheirsFile: text(texts.Theirs), conflict.YoursFile: text(texts.Yours),
	}}
}

func (c *conflictArg) read(kept *session.Conflicts) (about conflict.About, texts conflict.Texts, err error) {
	about, texts, err = kept.Get(int(c.N))
	if errors.Is(err, conflict.ErrNotFound) {
		err = fmt.Errorf("%w; `mneme conflicts list %s` shows those that are kept", err, term.ShellWord(c.Store))
	}
	return about, texts, err
}

type conflictsDiffCmd struct {
	conflictArg
	Base bool `help:"Compare with what it was based on: what the write wanted to change."`
}

func (c *conflictsDiffCmd) Help() string {
	return `Examples:

    mneme conflicts diff notes 7           (from theirs to yours)
    mneme conflicts diff notes 7 --base    (from base to yours)`
}

func (c *conflictsDiffCmd) Run(ctx context.Context, a *app.App) error {
	return withConflicts(ctx, a, c.Store, app.Reading, func(_ *memory.Store, kept *session.Conflicts) error {
		about, texts, err := c.read(kept)
		if err != nil {
			return err
		}
		name, from := conflict.TheirsFile, texts.Theirs
		if c.Base {
			name, from = conflict.BaseFile, texts.Base
		}
		diff := history.Diff(name, conflict.YoursFile, from, texts.Yours)
		if a.JSON {
			return a.PrintJSON(struct {
				conflict.About
				Diff string `json:"diff"`
			}{about, diff})
		}
		a.PrintDiff(diff)
		return nil
	})
}

type conflictsResolveCmd struct {
	conflictArg
	Take      string `required:"" placeholder:"WHAT" help:"yours, theirs, merge, or a FILE (- for standard input; ./yours for a file of that name)."`
	IfVersion string `placeholder:"V" help:"The current version that is to be replaced. Default: the one that won."`
}

func (c *conflictsResolveCmd) Help() string {
	return `yours and FILE replace the version that won, if it is still the current one; otherwise it is a conflict again, exit code 4, and --if-version says that you have seen the newer one. merge brings yours and the current version together by lines, if no two changes touch. theirs leaves the memory as it is. Prints the version that now holds the content.

Examples:

    mneme conflicts resolve notes 7 --take merge
    mneme conflicts resolve notes 7 --take ./edited.md
    mneme conflicts resolve notes 7 --take theirs`
}

func (c *conflictsResolveCmd) Run(ctx context.Context, a *app.App) error {
	return withConflicts(ctx, a, c.Store, app.Writing, func(st *memory.Store, kept *session.Conflicts) error {
		about, _, err := c.read(kept)
		if err != nil {
			return err
		}
		r, err := c.resolution(ctx, a, st, about)
		if err != nil {
			return err
		}
		v, err := kept.Resolve(ctx, int(c.N), r)
		if err != nil {
			return c.advise(err)
		}
		if r.Take == session.Theirs {
			return nil
		}
		return view.PrintVersion(a, st, v)
	})
}

// resolution is the new content of the memory, and the version that it replaces.
func (c *conflictsResolveCmd) resolution(ctx context.Context, a *app.App, st *memory.Store, about conflict.About) (session.Resolution, error) {
	r := session.Resolution{Message: fmt.Sprintf("resolves conflict %d, taking %s", c.N, c.Take), Confirmed: true}
	if c.Take == "theirs" {
		return r, nil
	}
	if c.IfVersion != "" {
		expect, err := expectVersion(ctx, st, about.Path, c.IfVersion)
		if err != nil {
			return r, err
		}
		r.Expect = &expect
	}
	switch c.Take {
	case "yours":
		r.Take = session.Yours
		return r, nil
	case "merge":
		r.Take = session.Merged
		return r, nil
	}
	var err error
	r.Take = session.Given
	r.Data, err = c.given(a, st, about.Path)
	return r, err
}

// given reads the text that a person has edited.
func (c *conflictsResolveCmd) given(a *app.App, st *memory.Store, path string) ([]byte, error) {
	limit := st.Info().Limits.MaxMemoryBytes
	if c.Take == "-" {
		data, err := readInput(a, path, limit)
		if err == nil && len(data) == 0 {
			err = app.Usagef("there is nothing on standard input; to empty the memory all the same, --take /dev/null")
		}
		return data, err
	}
	file, err := os.Open(c.Take)
	if err != nil {
		return nil, app.Usagef("--take %s: %w; want yours, theirs, merge or a file", c.Take, err)
	}
	defer file.Close()
	return readContent(io.Reader(file), path, limit)
}

// advise adds advice to the error of a conflict that was not resolved.
func (c *conflictsResolveCmd) advise(err error) error {
	switch {
	case errors.Is(err, session.ErrSameLines):
		return fmt.Errorf("%w; `mneme conflicts diff` shows them; edit a file and --take that", err)
	case errors.Is(err, versionlog.ErrConflict):
		return fmt.Errorf("%w; it has changed again: --take merge, or look at it and say --if-version", err)
	case c.Take == "merge" && errors.Is(err, versionlog.ErrNotFound):
		return fmt.Errorf("%w; --take yours makes it anew", err)
	}
	return err
}

type conflictsDismissCmd struct {
	conflictArg
}

func (c *conflictsDismissCmd) Help() string {
	return `The memory stays as it is. What was written is kept until its 30 days are over.

Example:

    mneme conflicts dismiss notes 7`
}

func (c *conflictsDismissCmd) Run(ctx context.Context, a *app.App) error {
	return withConflicts(ctx, a, c.Store, app.Writing, func(_ *memory.Store, kept *session.Conflicts) error {
		err := kept.Dismiss(int(c.N), "dismissed by a person")
		if errors.Is(err, conflict.ErrNotFound) {
			return fmt.Errorf("%w; `mneme conflicts list` shows those that are kept", err)
		}
		return err
	})
}
