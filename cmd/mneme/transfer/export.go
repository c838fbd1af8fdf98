// Package transfer holds the commands that copy stores out and in: backup, export, import and
// snapshot. It uses app and view. Read export.go first.
package transfer

import (
	"context"

	"mneme/archive"
	"mneme/archive/gitstream"
	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/memory"
)

// ExportCmd is the command `mneme export`.
type ExportCmd struct {
	Store     string `arg:"" help:"Its name or id."`
	At        string `placeholder:"POINT" help:"The history up to a point: a sequence number, HEAD~n, a time, or an age. Default: all of it."`
	HeadsOnly bool   `xor:"what" help:"Only what is there at that point, without the history."`
	Git       bool   `xor:"what" help:"Write the history as the input of 'git fast-import' instead."`
	Dir       string `xor:"what" placeholder:"DIR" help:"Write what is there at that point to a directory, which must not exist or be empty."`
	Okf       string `xor:"what" placeholder:"DIR" help:"The same as a bundle of the Open Knowledge Format: Markdown with front matter, an index of each directory and a log."`
	KeepGoing bool   `help:"Leave out contents that the store has lost, and name them; else the first one ends the export with exit code 7."`
}

func (c *ExportCmd) Help() string {
	return `Writes a store as a tar to standard output: the records of its history as they are, and each content once. The same history is always the same bytes, wherever the store is. 'mneme import' reads it; docs/FORMAT.md describes it. What is redacted later is still in the tar.

With --git, each commit of the store is a commit of git, on the branch main: its author, time, message, and sequence number, digest and operations as trailers (Mneme-Seq: 12). Empty directories are not there. With --dir, each memory is a file, with the time of its version. With --okf, Markdown that has no front matter with a type gets one, an index.md of the store is index.memory.md, and index.md and log.md say what is there and how it came to be. In all three names such as .git and .mailmap are escaped (%2Egit).

Examples:

    mneme export notes > notes.tar
    mneme export notes --at HEAD~1 > earlier.tar
    mneme export notes --heads-only | tar -tf -
    mneme export notes | zstd > notes.tar.zst
    mneme export notes --dir notes-now
    git init --bare -b main notes.git; mneme export notes --git | git -C notes.git fast-import`
}

func (c *ExportCmd) Run(ctx context.Context, a *app.App) error {
	if c.Dir != "" || c.Okf != "" {
		d := dirExport{store: c.Store, at: c.At, path: c.Dir + c.Okf, asBundle: c.Okf != "", keepGoing: c.KeepGoing} // one of them is empty
		return d.run(ctx, a)
	}
	if a.IsTerminal {
		return app.Usagef("a tar is not for a terminal; redirect standard output: `mneme export %s > FILE`", term.ShellWord(c.Store))
	}
	return withStoreAt(ctx, a, c.Store, c.At, func(_ *backend.Library, st *memory.Store) error {
		bar := a.Progress("export " + st.Info().Slug)
		defer bar.Clear()
		opts := &archive.ExportOptions{KeepGoing: c.KeepGoing, Progress: bar.Show, Lost: lostIn(a, st.Info().Slug, bar)}
		if c.Git {
			err := gitstream.Write(ctx, st, a.Out, &gitstream.Options{KeepGoing: c.KeepGoing, Progress: bar.Show, Lost: opts.Lost})
			return adviseLost(err, st.Info().Slug)
		}
		if c.HeadsOnly {
			opts.Kind = archive.Heads
		}
		_, err := archive.Export(ctx, st, a.Out, opts)
		return adviseLost(err, st.Info().Slug)
	})
}
