package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"mneme/backend"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

type conflictsCmd struct {
	List    conflictsListCmd    `cmd:"" help:"List what is kept of writes that lost a race."`
	Show    conflictsShowCmd    `cmd:"" help:"Show one, and how its text differs from what was there instead."`
	Diff    conflictsDiffCmd    `cmd:"" help:"Compare what was written with what was there instead, or with what it was based on."`
	Resolve conflictsResolveCmd `cmd:"" help:"Decide what the memory is to be, and forget the conflict."`
	Dismiss conflictsDismissCmd `cmd:"" help:"Settle one without a change: it is not listed any more."`
}

func (c *conflictsCmd) Help() string {
	return `When two sessions change a memory, the second write fails. What it would have written is kept here for 30 days, with what it was based on and what was there instead. A mount shows the same below .mneme/conflicts.

A conflict is settled when its session writes to the path again, or when it is dismissed: here, or by 'rm -r .mneme/conflicts/7' in a mount of its session. A settled one can still be shown and resolved.

Examples:

    mneme conflicts list notes
    mneme conflicts diff notes 7
    mneme conflicts resolve notes 7 --take merge
    mneme conflicts dismiss notes 7`
}

// withConflicts opens a store and its conflicts for the time of do.
func (a *app) withConflicts(ctx context.Context, ref string, opts backend.Options, do func(*memory.Store, *conflict.Store) error) error {
	return a.withLibrary(ctx, opts, func(lib *backend.Library) error {
		st, err := openStore(ctx, lib, ref, opts)
		if err != nil {
			return err
		}
		return do(st, lib.Conflicts(st.Info().ID))
	})
}

type conflictsListCmd struct {
	Store string `arg:"" help:"Its name or id."`
	All   bool   `help:"List the settled ones, too."`
}

func (c *conflictsListCmd) Run(ctx context.Context, a *app) error {
	return a.withConflicts(ctx, c.Store, reading, func(_ *memory.Store, kept *conflict.Store) error {
		if err := kept.Expire(time.Now()); err != nil {
			return err
		}
		read := kept.List
		if c.All {
			read = kept.ListAll
		}
		list, err := read()
		if err != nil {
			return err
		}
		t := &table{header: []string{"N", "TIME", "PATH", "SESSION", "SIZE", "WHY"}, right: []string{"N", "SIZE"},
			shrink: []string{"WHY", "SESSION", "PATH"}, paths: []string{"PATH"}}
		for _, about := range list {
			if a.json {
				if err := a.printJSON(about); err != nil {
					return err
				}
				continue
			}
			t.add(strconv.Itoa(about.ID), localTime(about.Time), about.Path, about.Session, strconv.FormatInt(about.Size, 10), whyOf(about))
		}
		if len(t.rows) > 0 {
			a.printTable(t)
		}
		return nil
	})
}

// whyOf says why a conflict came about and, if it is settled, how.
func whyOf(about conflict.About) string {
	if about.Settled.IsZero() {
		return about.Why
	}
	return "settled (" + about.How + "): " + about.Why
}

// conflictArg is a conflict on the command line.
type conflictArg struct {
	Store string `arg:"" help:"Its name or id."`
	N     count  `arg:"" help:"The conflict's number, as in 'mneme conflicts list'."`
}

type conflictsShowCmd struct {
	conflictArg
}

func (c *conflictsShowCmd) Help() string {
	return `With --json the three texts come along, below "texts": base, theirs and yours; null where there was no memory.

Example:

    mneme conflicts show notes 7`
}

func (c *conflictsShowCmd) Run(ctx context.Context, a *app) error {
	return a.withConflicts(ctx, c.Store, reading, func(_ *memory.Store, kept *conflict.Store) error {
		about, texts, err := c.read(kept)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(newConflictJSON(about, texts))
		}
		side := func(s *conflict.Side) string {
			if s == nil {
				return "no memory"
			}
			return fmt.Sprintf("%s (sequence %d, by %s, %s)", s.Version, s.Seq, s.Actor, localTime(s.Time))
		}
		a.printFields([][2]string{
			{"Conflict", strconv.Itoa(about.ID)}, {"Place", about.Store + ":" + about.Path}, {"Time", localTime(about.Time)},
			{"Session", about.Session}, {"Why", whyOf(about)}, {"Based on", side(about.Base)}, {"Instead", side(about.Theirs)},
		})
		a.printf("\n")
		a.printDiff(memory.Diff("theirs", "yours", texts.Theirs, texts.Yours))
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

func (c *conflictArg) read(kept *conflict.Store) (about conflict.About, texts conflict.Texts, err error) {
	id := int(c.N)
	if about, err = kept.About(id); err != nil {
		return about, texts, fmt.Errorf("%w; `mneme conflicts list %s` shows those that are kept", err, shellWord(c.Store))
	}
	for name, data := range map[string]*[]byte{
		conflict.BaseFile: &texts.Base, conflict.TheirsFile: &texts.Theirs, conflict.YoursFile: &texts.Yours,
	} {
		if *data, err = kept.Read(id, name); err != nil {
			return about, texts, err
		}
	}
	return about, texts, nil
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

func (c *conflictsDiffCmd) Run(ctx context.Context, a *app) error {
	return a.withConflicts(ctx, c.Store, reading, func(_ *memory.Store, kept *conflict.Store) error {
		about, texts, err := c.read(kept)
		if err != nil {
			return err
		}
		name, from := conflict.TheirsFile, texts.Theirs
		if c.Base {
			name, from = conflict.BaseFile, texts.Base
		}
		diff := memory.Diff(name, conflict.YoursFile, from, texts.Yours)
		if a.json {
			return a.printJSON(struct {
				conflict.About
				Diff string `json:"diff"`
			}{about, diff})
		}
		a.printDiff(diff)
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

func (c *conflictsResolveCmd) Run(ctx context.Context, a *app) error {
	return a.withConflicts(ctx, c.Store, writing, func(st *memory.Store, kept *conflict.Store) error {
		about, texts, err := c.read(kept)
		if err != nil {
			return err
		}
		if c.Take == "theirs" {
			return kept.Remove(int(c.N))
		}
		data, expect, err := c.content(ctx, a, st, about, texts)
		if err != nil {
			return err
		}
		message := fmt.Sprintf("resolves conflict %d, taking %s", c.N, c.Take)
		put := memory.Change{Action: versionlog.Put, Path: about.Path, Content: data, Expect: expect}
		commit, err := st.Batch(ctx, []memory.Change{put}, &memory.CommitOptions{Message: message})
		if errors.Is(err, versionlog.ErrConflict) {
			return fmt.Errorf("%w; it has changed again: --take merge, or look at it and say --if-version", err)
		}
		if err != nil {
			return err
		}
		if err := kept.Remove(int(c.N)); err != nil {
			return err
		}
		if len(commit.Versions) > 0 {
			return a.printVersion(st, commit.Versions[0])
		}
		head, err := st.Head(ctx, about.Path)
		if err != nil {
			return err
		}
		return a.printVersion(st, head)
	})
}

// content returns what the memory is to hold, and what it is to replace.
func (c *conflictsResolveCmd) content(ctx context.Context, a *app, st *memory.Store, about conflict.About, texts conflict.Texts) ([]byte, versionlog.Expectation, error) {
	expect := versionlog.ExpectAbsent()
	if about.Theirs != nil {
		expect = versionlog.ExpectVersion(about.Theirs.Version)
	}
	if c.IfVersion != "" {
		var err error
		if expect, err = expectVersion(ctx, st, about.Path, c.IfVersion); err != nil {
			return nil, expect, err
		}
	}
	switch c.Take {
	case "yours":
		return texts.Yours, expect, nil
	case "merge":
		return c.merged(ctx, st, about, texts)
	case "-":
		data, err := a.readInput(about.Path, st.Info().Limits.MaxMemoryBytes)
		if err == nil && len(data) == 0 {
			err = usagef("there is nothing on standard input; to empty the memory all the same, --take /dev/null")
		}
		return data, expect, err
	}
	file, err := os.Open(c.Take)
	if err != nil {
		return nil, expect, usagef("--take %s: %w; want yours, theirs, merge or a file", c.Take, err)
	}
	defer file.Close()
	data, err := readContent(io.Reader(file), about.Path, st.Info().Limits.MaxMemoryBytes)
	return data, expect, err
}

type conflictsDismissCmd struct {
	conflictArg
}

func (c *conflictsDismissCmd) Help() string {
	return `The memory stays as it is. What was written is kept until its 30 days are over.

Example:

    mneme conflicts dismiss notes 7`
}

func (c *conflictsDismissCmd) Run(ctx context.Context, a *app) error {
	return a.withConflicts(ctx, c.Store, writing, func(_ *memory.Store, kept *conflict.Store) error {
		err := kept.Settle(int(c.N), "dismissed by a person", time.Now())
		if errors.Is(err, conflict.ErrNotFound) {
			return fmt.Errorf("%w; `mneme conflicts list` shows those that are kept", err)
		}
		return err
	})
}

func (c *conflictsResolveCmd) merged(ctx context.Context, st *memory.Store, about conflict.About, texts conflict.Texts) ([]byte, versionlog.Expectation, error) {
	head, current, err := st.Read(ctx, about.Path)
	if err != nil {
		return nil, versionlog.Expectation{}, fmt.Errorf("%w; --take yours makes it anew", err)
	}
	merged, ok := memory.Merge(texts.Base, current, texts.Yours)
	if !ok {
		return nil, versionlog.Expectation{}, fmt.Errorf(
			"conflict %d: both changed the same lines: %w; `mneme conflicts diff` shows them; edit a file and --take that", c.N, versionlog.ErrConflict)
	}
	return merged, versionlog.ExpectVersion(head.ID), nil
}
