package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/archive"
	"mneme/archive/gitstream"
	"mneme/backend"
	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

type exportCmd struct {
	Store     string `arg:"" help:"Its name or id."`
	At        string `placeholder:"POINT" help:"The history up to a point: a sequence number, HEAD~n, a time, or an age. Default: all of it."`
	HeadsOnly bool   `xor:"what" help:"Only what is there at that point, without the history."`
	Git       bool   `xor:"what" help:"Write the history as the input of 'git fast-import' instead."`
	KeepGoing bool   `help:"Leave out contents that the store has lost, and name them; else the first one ends the export with exit code 7."`
}

func (c *exportCmd) Help() string {
	return `Writes a store as a tar to standard output: the records of its history as they are, and each content once. The same history is always the same bytes, wherever the store is. 'mneme import' reads it; docs/FORMAT.md describes it. What is redacted later is still in the tar.

With --git, each commit of the store is a commit of git, on the branch main: its author, time, message, and sequence number, digest and operations as trailers (Mneme-Seq: 12). Names such as .git are escaped (%2Egit). Empty directories are not there.

Examples:

    mneme export notes > notes.tar
    mneme export notes --at HEAD~1 > earlier.tar
    mneme export notes --heads-only | tar -tf -
    mneme export notes | zstd > notes.tar.zst
    git init --bare notes.git; mneme export notes --git | git -C notes.git fast-import`
}

func (c *exportCmd) Run(ctx context.Context, a *app) error {
	if a.terminal {
		return usagef("a tar is not for a terminal; redirect standard output: `mneme export %s > FILE`", shellWord(c.Store))
	}
	return a.withStoreAt(ctx, c.Store, c.At, func(_ *backend.Library, st *memory.Store) error {
		bar := a.progress("export " + st.Info().Slug)
		defer bar.clear()
		opts := &archive.ExportOptions{KeepGoing: c.KeepGoing, Progress: bar.show, Lost: func(v versionlog.Version) {
			bar.clear()
			a.warnLost(st.Info().Slug, v)
		}}
		if c.Git {
			err := gitstream.Write(ctx, st, a.out, &gitstream.Options{KeepGoing: c.KeepGoing, Progress: bar.show, Lost: opts.Lost})
			return adviseLost(err, st.Info().Slug)
		}
		if c.HeadsOnly {
			opts.Kind = archive.Heads
		}
		_, err := archive.Export(ctx, st, a.out, opts)
		return adviseLost(err, st.Info().Slug)
	})
}

// adviseLost says what can be done about a content that is lost.
func adviseLost(err error, slug string) error {
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) {
		return advised{fmt.Errorf("%w; `mneme fsck %s` names all that is lost and what to do, --keep-going leaves it out", err, slug)}
	}
	return err
}

// warnLost names a content that a store has lost.
func (a *app) warnLost(store string, v versionlog.Version) {
	a.warnf("%s: content %v is lost; it is that of version %s of %s", store, v.Digest, v.ID, v.Path)
}

// withStoreAt opens the store that ref means for reading, as it was at a point, for the time
// of do; "" is as it is.
func (a *app) withStoreAt(ctx context.Context, ref, at string, do func(*backend.Library, *memory.Store) error) error {
	var point memory.Point
	if at != "" {
		var err error
		if point, err = memory.ParsePoint(at, time.Now()); err != nil {
			return err
		}
	}
	return a.withLibrary(ctx, reading, func(lib *backend.Library) error {
		st, err := openStore(ctx, lib, ref, reading)
		if err != nil {
			return err
		}
		if at != "" {
			seq, err := st.ResolvePoint(ctx, point)
			if err != nil {
				return err
			}
			if st, err = lib.OpenAt(ctx, st.Info().ID, seq); err != nil {
				return err
			}
		}
		return do(lib, st)
	})
}
