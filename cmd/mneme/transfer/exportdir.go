package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mneme/archive/okf"
	"mneme/archive/plaindir"
	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/internal/durable"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/internal/safepath"
	"mneme/memory"
)

// exportDirJSON is the contents of an exported directory.
type exportDirJSON struct {
	Type     string `json:"type"`
	Path     string `json:"path"`
	Store    string `json:"store"`
	Seq      uint64 `json:"seq"`
	Memories int    `json:"memories"`
}

// dirExport writes a store at a point as a plain directory.
type dirExport struct {
	store, at string
	path      string // of the directory
	asBundle  bool   // of the Open Knowledge Format
	keepGoing bool
}

func (d *dirExport) run(ctx context.Context, a *app.App) error {
	dir, err := newDir(d.path)
	if err != nil {
		return err
	}
	return withStoreAt(ctx, a, d.store, d.at, func(_ *backend.Library, st *memory.Store) error {
		slug := st.Info().Slug
		bar := a.Progress("export " + slug)
		defer bar.Clear()
		n := 0
		err := dir.fill(func(root *os.Root) (err error) {
			opts := &plaindir.Options{KeepGoing: d.keepGoing, Progress: bar.Show, Lost: lostIn(a, slug, bar)}
			if d.asBundle {
				if err := asBundle(ctx, st, opts); err != nil {
					return err
				}
			}
			n, err = plaindir.Write(ctx, st, root, opts)
			return err
		})
		bar.Clear()
		if err != nil {
			return adviseLost(err, slug)
		}
		tip, err := st.Tip(ctx)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(exportDirJSON{"export", string(dir), slug, tip.Seq, n})
		}
		a.Printf("%s: %s of commit %d written to %s\n", quote.Text(slug), plural.Of(n, "memory"), tip.Seq, quote.Text(string(dir)))
		return nil
	})
}

// asBundle makes a directory a bundle of the Open Knowledge Format.
func asBundle(ctx context.Context, st *memory.Store, opts *plaindir.Options) error {
	tip, err := st.Tip(ctx)
	if err != nil {
		return err
	}
	state, err := st.At(ctx, tip.Seq)
	if err != nil {
		return err
	}
	var paths []string
	for v, err := range state.Heads(ctx, "/", "") {
		if err != nil {
			return err
		}
		paths = append(paths, v.Path)
	}
	bundle := okf.New(st.Info().Name, paths)
	opts.Convert = bundle.Add
	opts.Rest = func() (map[string][]byte, error) { return bundle.Rest(ctx, st) }
	return nil
}

// newDirectory is the path of a new or empty directory, which is filled as a whole.
type newDirectory string

// newDir makes sure that the directory does not exist or is empty.
func newDir(name string) (newDirectory, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if err := safepath.CheckNew(path); err != nil { // also for an existing one: it is filled next to itself
		return "", err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newDirectory(path), nil
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", app.Usagef("%s is there already, and no directory; name a new one", name)
	}
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		err = app.Usagef("the directory %s is not empty; an export replaces nothing, name a new one or an empty one", name)
	}
	return newDirectory(path), err
}

// fill fills a directory next to the destination, then renames it.
func (d newDirectory) fill(write func(*os.Root) error) (err error) {
	path := string(d)
	stage, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+partial+"*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	whole := filepath.Join(stage, "dir")
	if err := os.Mkdir(whole, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(whole)
	if err != nil {
		return err
	}
	err = write(root)
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	if err := publishDir(whole, path); err != nil {
		return fmt.Errorf("%w; if a file system is mounted there, name a new directory in it", err)
	}
	return durable.SyncDir(path)
}
