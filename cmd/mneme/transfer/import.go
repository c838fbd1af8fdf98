package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mneme/archive"
	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/internal/durable"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// ImportCmd is the command `mneme import`.
type ImportCmd struct {
	File      string `arg:"" help:"What 'mneme export' has written, or - for standard input."`
	Store     string `arg:"" optional:"" help:"The name of the store to make, or to import into. Default: that in the archive."`
	Mode      string `enum:"new,replace,merge" default:"new" help:"What to do with a store that is there: new refuses it, replace puts this one in its place, merge adds what it has not. Default: new."`
	Keep      string `placeholder:"FILE" help:"With --mode replace: a new file, to which the history that is replaced is exported first."`
	KeepGoing bool   `help:"Import what is there of an archive that lacks contents, and name these."`
	app.ConfirmFlag
	Force bool `help:"Replace a store though it is mounted on this machine."`
}

func (c *ImportCmd) Help() string {
	return `Verifies all of an archive before anything is written: its root, every record and the chain of their digests, every content. Then a mode says what becomes of a store that is there:

  - new makes the store with its history, ids and times as they were. A store of that name or id is left alone, unless an interrupted import of the same archive has left it: then the rest is added. Of an archive of --heads-only a new store is made, with new ids.
  - replace puts the store in the place of an archived one, whose history is exported to --keep FILE first. To one that has a beginning of the same history it adds the rest.
  - merge writes what is there at the end of the archive as new commits into a store. What that has with another content is not replaced but kept as a conflict.

An import that was interrupted is gone on with by running it again, on the same machine.

Examples:

    mneme export notes > notes.tar
    mneme --url file://$HOME/elsewhere import notes.tar
    mneme import notes.tar notes --mode merge
    mneme import - < notes.tar`
}

// importJSON is the result of an import.
type importJSON struct {
	Type      string `json:"type"`
	Mode      string `json:"mode"`
	Store     string `json:"store"`
	ID        string `json:"id"`
	Seq       uint64 `json:"head_seq"`
	Digest    string `json:"head_digest"`
	Commits   uint64 `json:"commits"`
	Contents  int    `json:"contents"`
	Created   int    `json:"created"`
	Unchanged int    `json:"unchanged"`
	Skipped   int    `json:"skipped"`
	Conflicts []int  `json:"conflicts"`
	Kept      string `json:"kept,omitempty"`
}

func (c *ImportCmd) Run(ctx context.Context, a *app.App) error {
	if (c.Keep != "") != (c.Mode == "replace") {
		return app.Usagef("--keep FILE goes with --mode replace, which wants it: the history that is replaced is exported there")
	}
	slug := ""
	if c.Store != "" {
		var err error
		if slug, err = memory.Slug(c.Store); err != nil {
			return err
		}
		if c.Mode == "merge" {
			slug = c.Store // whatever names the store
		}
	}
	file, size, err := c.open(a)
	if err != nil {
		return err
	}
	defer file.Close()
	bar := a.Progress("import")
	defer bar.Clear()
	read, err := archive.Open(ctx, file, size, bar.Show)
	if err != nil {
		return app.Advised(fmt.Errorf("%s: %w", c.File, err))
	}
	bar.Clear()
	for v := range read.Lost() {
		warnLost(a, read.Manifest.Store.Slug, v)
	}
	opts := app.Creating
	if c.Mode == "merge" {
		opts = app.Writing
	}
	return a.WithLibrary(ctx, opts, func(lib *backend.Library) error {
		done, err := archive.Import(ctx, lib.Library, read, &archive.ImportOptions{
			Mode: archive.Mode(c.Mode), Slug: slug, Author: &memory.Author{Actor: app.UserActor()}, KeepGoing: c.KeepGoing, Progress: bar.Show,
			Marks: lib.ImportsDir(), Confirmed: c.Confirm,
			Warn: func(f memory.SecretsFound) {
				bar.Clear()
				a.Warnf("%s: %s", f.Path, &f)
			},
			Conflicts: func(storeID string) *conflict.Store { return lib.Conflicts(storeID) },
			Keep: func(ctx context.Context, s versionlog.Store) (versionlog.Tip, error) {
				bar.Clear()
				return c.keep(ctx, a, lib, s)
			},
		})
		bar.Clear()
		if err != nil {
			if err = c.advise(err, read); done != nil && done.Replaced {
				err = app.Advised(fmt.Errorf("%w; what was there before is in %s", err, c.Keep))
			}
			return err
		}
		return c.print(ctx, a, lib, done)
	})
}

// open opens the archive. It copies a pipe to a file without a name first, since the
// archive is verified before it is used.
func (c *ImportCmd) open(a *app.App) (*os.File, int64, error) {
	f := a.In
	if c.File != "-" {
		var err error
		if f, err = os.Open(c.File); err != nil {
			return nil, 0, err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if info.Mode().IsRegular() {
		return f, info.Size(), nil
	}
	if info.IsDir() {
		return nil, 0, errors.Join(app.Usagef("%s is a directory; want a file that `mneme export` has written", c.File), f.Close())
	}
	temp, err := archive.NewUnnamed()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	size, err := io.Copy(temp, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, errors.Join(err, temp.Close())
	}
	return temp, size, nil
}

// keep exports the history of a store to the file for it. A file with the history, from an
// interrupted import, is accepted.
func (c *ImportCmd) keep(ctx context.Context, a *app.App, lib *backend.Library, s versionlog.Store) (tip versionlog.Tip, err error) {
	if !c.Force {
		if err := a.CheckUnmounted(s, true); err != nil {
			return tip, err
		}
	}
	if kept, err := lib.Conflicts(s.ID).IDs(); err != nil || len(kept) > 0 {
		return tip, errors.Join(err, fmt.Errorf("store %s keeps %s, which would go with it: `mneme conflicts list %[1]s`", s.Slug, plural.Of(len(kept), "conflict")))
	}
	path, err := filepath.Abs(c.Keep)
	if err != nil {
		return tip, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := c.keepNew(ctx, a, lib, s, path); err != nil {
			return tip, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return tip, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return tip, err
	}
	kept, err := archive.Open(ctx, f, info.Size(), nil)
	if err != nil || kept.Manifest.Store.ID != s.ID || kept.Manifest.Kind != archive.History {
		return tip, errors.Join(app.Usagef("%s is there, and has not the history of store %s; name a new file", c.Keep, s.Slug), err)
	}
	if err := c.checkKept(ctx, lib, s, kept); err != nil {
		return tip, err
	}
	if err := errors.Join(durable.Sync(f), durable.SyncDir(filepath.Dir(path))); err != nil { // another process may have made it
		return tip, err
	}
	return versionlog.Tip{Seq: kept.Manifest.Seq, Digest: kept.Manifest.Digest}, nil
}

// checkKept makes sure that the file lacks only contents that the store lacks, too.
func (c *ImportCmd) checkKept(ctx context.Context, lib *backend.Library, s versionlog.Store, kept *archive.Archive) error {
	st, err := lib.Open(ctx, s.ID, nil)
	if err != nil {
		return err
	}
	for _, d := range kept.Manifest.Lost {
		switch gone, err := st.Lacks(ctx, d); {
		case err != nil:
			return err
		case !gone:
			return app.Usagef("%s lacks content %.12s, which store %s has; name a new file", c.Keep, d, s.Slug)
		}
	}
	return nil
}

// keepNew exports the history of a store to a new file, which appears when it is complete.
func (c *ImportCmd) keepNew(ctx context.Context, a *app.App, lib *backend.Library, s versionlog.Store, path string) error {
	st, err := lib.Open(ctx, s.ID, nil)
	if err != nil {
		return err
	}
	bar := a.Progress("keep " + s.Slug)
	defer bar.Clear()
	err = writeNew(path, func(f *os.File) error {
		_, err := archive.Export(ctx, st, f, &archive.ExportOptions{
			KeepGoing: c.KeepGoing, Progress: bar.Show, Lost: func(v versionlog.Version) { warnLost(a, s.Slug, v) },
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("the history of store %s could not be kept, so it was not replaced: %w", s.Slug, err)
	}
	return nil
}

// advise is the advice about a refused import.
func (c *ImportCmd) advise(err error, read *archive.Archive) error {
	word := term.ShellWord(c.File)
	switch {
	case errors.Is(err, archive.ErrTaken):
		return app.Advised(fmt.Errorf("%w; `mneme import %s NAME` makes another of that name, unless it is the same store; `--mode merge` adds what the archive has to the one that is there; `--mode replace --keep FILE` puts it in its place", err, word))
	case errors.Is(err, backend.ErrLeft):
		id := read.Manifest.Store.ID
		return app.Advised(fmt.Errorf("%w; `mneme store delete %s --yes` removes the rest, and then the import goes on when it is run again", err, id))
	case errors.Is(err, archive.ErrBeginning):
		return app.Advised(fmt.Errorf("%w; `--mode replace --keep FILE` adds the rest to it, and keeps no file; if an import from elsewhere has left it, `mneme store delete %s --yes` makes room for it", err, read.Manifest.Store.ID))
	case errors.Is(err, archive.ErrAhead):
		return app.Advised(fmt.Errorf("%w; nothing is to be imported", err))
	case errors.Is(err, archive.ErrInUse):
		return app.Advised(fmt.Errorf("%w; end what writes to it, and archive it: `mneme store archive %s`", err, read.Manifest.Store.Slug))
	case errors.Is(err, archive.ErrIncomplete):
		return app.Advised(fmt.Errorf("%w; --keep-going imports the rest", err))
	case errors.Is(err, versionlog.ErrTooLarge), errors.Is(err, versionlog.ErrErasedHistory):
		return app.Advised(fmt.Errorf("%w; this history cannot be kept here; `mneme import %s NAME --mode merge` takes what is there at its end into a store that is here", err, word))
	case errors.Is(err, versionlog.ErrNotFound) && c.Mode == "merge":
		return app.Advised(fmt.Errorf("%w; `mneme import %s` makes the store", err, word))
	}
	return err
}

func (c *ImportCmd) print(ctx context.Context, a *app.App, lib *backend.Library, done *archive.Imported) error {
	st, err := lib.Open(ctx, done.Store.ID, nil)
	if err != nil {
		return err
	}
	tip, err := st.Tip(ctx)
	if err != nil {
		return err
	}
	slug := done.Store.Slug
	if a.JSON {
		j := importJSON{
			Type: "import", Mode: c.Mode, Store: slug, ID: done.Store.ID, Seq: tip.Seq, Digest: tip.Digest.String(), Commits: done.Commits,
			Contents: done.Contents, Created: done.Created, Unchanged: done.Unchanged, Skipped: done.Skipped, Conflicts: done.Conflicts,
		}
		if j.Conflicts == nil {
			j.Conflicts = []int{}
		}
		if done.Replaced {
			j.Kept = c.Keep
		}
		return a.PrintJSON(j)
	}
	if done.Replaced {
		a.Printf("%s: what was there before is in %s\n", quote.Text(slug), quote.Text(c.Keep))
	}
	if done.Created+done.Unchanged+len(done.Conflicts) == 0 {
		a.Printf("%s: %s imported; it is at commit %d, %v\n", quote.Text(slug), plural.Of(done.Commits, "commit"), tip.Seq, tip.Digest)
	} else {
		a.Printf("%s: %s made, %d as they were\n", quote.Text(slug), plural.Of(done.Created, "memory"), done.Unchanged)
	}
	if n := len(done.Conflicts); n > 0 {
		a.Printf("%s: %s with another content, kept as conflicts; `mneme conflicts list %s` shows them\n", quote.Text(slug), plural.Of(n, "memory"), quote.Text(slug))
	}
	return nil
}
