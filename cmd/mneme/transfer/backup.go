package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/internal/safepath"
)

// BackupCmd is the command `mneme backup`.
type BackupCmd struct {
	Dest   string   `arg:"" help:"A directory that does not exist or is empty, a new file whose name ends in .tar, or - for a tar on standard output."`
	Stores []string `arg:"" optional:"" name:"store" help:"Their names or ids. Default: all stores."`
}

func (c *BackupCmd) Help() string {
	return `Copies the stores with their whole history and the kept conflicts, as of one moment, while mounts and commands use them. DEST appears only when everything is in it and on disk; what an interrupted backup leaves is called DEST.partial-… and can be removed. A directory is used in place (--url file:///DEST) or copied back; a tar holds one directory, mneme, which is such a copy.

Exit code 7 says that the copy is there, but lacks contents that the store itself has lost.

Examples:

    mneme backup /backups/mneme-2026-11-25
    mneme fsck --url file:///backups/mneme-2026-11-25
    mneme backup notes.tar notes
    mneme backup - | zstd > stores.tar.zst`
}

// backupJSON is the contents of a backup.
type backupJSON struct {
	Type      string                `json:"type"`
	Path      string                `json:"path"`
	Stores    []backend.BackupStore `json:"stores"`
	Files     int                   `json:"files"` // of contents that are not in the database
	Conflicts int                   `json:"conflicts"`
	Lost      int                   `json:"lost"` // contents that the stores themselves have lost
}

func (c *BackupCmd) Run(ctx context.Context, a *app.App) error {
	at, err := app.Locate(a.URL)
	if err != nil {
		return err
	}
	if at.Server != nil {
		return app.Usagef("%v: mneme backup copies embedded stores; run it where the stores of this server are", at)
	}
	if at.Recovery.Backup == nil {
		return app.Usagef("%v: mneme backup copies embedded stores; the history of these is in the bucket, so turn on its versioning and copy or replicate it (see docs/AWS.md), from which `mneme fsck --rebuild-index` makes the table", at)
	}
	if c.Dest == "-" && a.IsTerminal {
		return app.Usagef("a tar is not for a terminal; redirect standard output, or name a file or directory")
	}
	// An interruption leaves nothing. A second one ends the process.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	context.AfterFunc(ctx, stop)
	dest, err := newBackupDest(c.Dest, at)
	if err != nil {
		return err
	}
	bar := a.Progress("backup")
	done, err := dest.fill(ctx, a, func(dir string) (*backend.Backup, error) {
		return at.Recovery.Backup(ctx, dir, c.Stores, bar.Show)
	})
	bar.Clear()
	if ctx.Err() != nil && err != nil {
		return errors.New("the backup was interrupted; nothing is left of it")
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return printBackup(a, done, dest.path)
}

// printBackup reports the copy and its place. "" is standard output.
func printBackup(a *app.App, b *backend.Backup, path string) error {
	switch {
	case path == "":
	case a.JSON:
		j := backupJSON{Type: "backup", Path: path, Stores: b.Stores, Files: b.Files, Conflicts: b.Conflicts, Lost: len(b.Lost)}
		if err := a.PrintJSON(j); err != nil {
			return err
		}
	default:
		for _, s := range b.Stores {
			a.Printf("%s: %s\n", quote.Text(s.Slug), plural.Of(s.Seq, "commit"))
		}
		a.Printf("%s backed up to %s\n", plural.Of(len(b.Stores), "store"), quote.Text(path))
	}
	if len(b.Lost) == 0 {
		return nil
	}
	first := b.Lost[0]
	return fmt.Errorf("%w: the copy is complete but for %s that the store itself has lost, the first of them blob %v of %s; `mneme fsck %[4]s` says what to do",
		app.ErrDamaged, plural.Of(len(b.Lost), "content"), first.Digest, first.Store.Slug)
}

// backupDest is the destination of a backup: a directory, a tar or standard output.
type backupDest struct {
	path string // "" is standard output
	tar  bool
}

// newBackupDest makes sure that a backup of the stores at a location may go to the
// destination.
func newBackupDest(name string, of *backend.Location) (*backupDest, error) {
	if name == "-" {
		return &backupDest{tar: true}, nil
	}
	for _, suffix := range []string{".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"} {
		if strings.HasSuffix(name, suffix) {
			return nil, app.Usagef("mneme does not compress; pipe a tar to a program that does: `mneme backup - | gzip > %s`", name)
		}
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	if err := safepath.CheckNew(path); err != nil { // with the links on the way
		return nil, err
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil {
		return nil, err
	} else {
		path = filepath.Join(parent, filepath.Base(path))
	}
	d := &backupDest{path: path, tar: strings.HasSuffix(name, ".tar")}
	if of.Dir != "" {
		if source, err := filepath.EvalSymlinks(of.Dir); err == nil && (path == source || strings.HasPrefix(path, source+"/")) {
			return nil, app.Usagef("%s is in the directory of the stores themselves, %s; name a place outside", name, source)
		}
	}
	return d, d.vacant(name)
}

// vacant makes sure that the destination does not exist.
func (d *backupDest) vacant(name string) error {
	info, err := os.Lstat(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.tar || !info.IsDir() {
		return app.Usagef("%s is there already; a backup replaces nothing, name a new one", name)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return app.Usagef("the directory %s is not empty; a backup replaces nothing, name a new one or an empty one", name)
	}
	parent, err := os.Stat(filepath.Dir(d.path))
	if err == nil && parent.Sys().(*syscall.Stat_t).Dev != info.Sys().(*syscall.Stat_t).Dev {
		return app.Usagef("%s is where a file system is mounted; name a new directory in it", name)
	}
	return err
}

// partial is the suffix of the name of an unfinished backup.
const partial = ".partial-"

// fill makes the copy in a directory next to the destination, and renames it.
func (d *backupDest) fill(ctx context.Context, a *app.App, copyTo func(dir string) (*backend.Backup, error)) (_ *backend.Backup, err error) {
	parent, base := os.TempDir(), "mneme"
	if d.path != "" {
		parent, base = filepath.Split(d.path)
	}
	if err := safepath.CheckNew(filepath.Join(parent, base)); err != nil {
		return nil, err
	}
	stage, err := os.MkdirTemp(parent, base+partial+"*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	dir := filepath.Join(stage, tarRoot)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	b, err := copyTo(dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(b.Lost, func(x, y backend.LostContent) int { return strings.Compare(x.Store.Slug, y.Store.Slug) })
	switch {
	case d.path == "":
		return b, writeTar(ctx, a.Out, dir, b.LastFile)
	case d.tar:
		return b, publishTar(ctx, dir, b.LastFile, filepath.Join(stage, "tar"), d.path)
	}
	return b, publishDir(dir, d.path)
}
