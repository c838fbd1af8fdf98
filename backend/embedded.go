package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/dircas"
	"mneme/cas/sizecas"
	"mneme/errkind"
	"mneme/internal/bytesize"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/versionlog/sqlitelog"
)

// The layout of the embedded store below its directory, but for the log:
// sqlitelog names its own files.
const (
	formatFile = "format"
	storesDir  = "stores"
	blobsDir   = "blobs"

	formatPrefix   = "mneme embedded store "
	embeddedFormat = 1

	// The bytes of the disk that mounts leave free (defaultMinFree), but at most an eighth of
	// it, and those that commands leave free, so that a store can still be deleted
	// (peoplesMinFree), but at most a sixteenth. It is several times the size of the
	// write-ahead log, and as much may have to be copied from that into the database.
	defaultMinFree = 64 << 20
	peoplesMinFree = 16 << 20
)

// embedded is a directory of this machine: the log and small blobs in SQLite,
// large blobs as files.
type embedded struct{ dir string }

// locateEmbedded reads a file URL.
func locateEmbedded(u *url.URL) (*Location, error) {
	switch {
	case u.Host != "":
		return nil, fmt.Errorf("%q stands where a host would (file:// and an absolute path make three slashes)", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has a query or fragment (write ? as %3F and # as %23)")
	case u.Opaque != "" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0):
		return nil, errors.New("it has no absolute path")
	}
	return embedded{filepath.Clean(u.Path)}.location(), nil
}

// fileURL is the URL of a directory.
func fileURL(dir string) string { return (&url.URL{Scheme: "file", Path: dir}).String() }

func (e embedded) String() string { return fileURL(e.dir) }

func (e embedded) location() *Location {
	l := &Location{URL: e.String(), Dir: e.dir, open: e.open, check: func() error { return checkFormat(e.dir, false) }}
	l.Recovery = Recovery{
		Losses: e.losses, AcceptLosses: e.acceptLosses,
		Backup: func(ctx context.Context, dir string, refs []string, progress Progress) (*Backup, error) {
			conflicts, err := l.ConflictsDir()
			if err != nil {
				return nil, err
			}
			return e.backup(ctx, conflicts, dir, refs, progress)
		},
	}
	return l
}

func (e embedded) open(ctx context.Context, opts *Options) (*Library, error) {
	log, err := e.openLog(ctx, opts)
	if err != nil {
		return nil, err
	}
	blobs, known := func(storeID string) (cas.Store, error) { return e.blobs(log, storeID) }, &knownSpace{}
	problem := func(p sqlitelog.Problem) verify.Problem {
		return verify.Problem{Kind: ProblemIndex, Finding: p.Finding, Subject: p.Subject, What: p.What, Do: p.Do}
	}
	l := newLibrary(log, &blobCaches{backend: blobs, direct: opts.Direct, options: &cache.Options{Near: true}}, parts{
		check: func(ctx context.Context, storeID string, report func(verify.Problem)) error {
			return log.Check(ctx, storeID, func(p sqlitelog.Problem) { report(problem(p)) })
		},
		checkShared: func(ctx context.Context, report func(verify.Problem)) error {
			return log.CheckDatabase(ctx, func(p sqlitelog.Problem) { report(problem(p)) })
		},
		checkFree: func(minFree *int64) error { return e.checkMinFree(log, known, minFree) },
		collect: func(ctx context.Context, storeID string, opts *CollectOptions) (*Garbage, error) {
			return e.collect(ctx, log, storeID, opts)
		},
		shrink: log.Shrink,
		eraseLeft: func(ctx context.Context, storeID string, has func(text []byte) bool) (int, error) {
			files, err := e.blobFiles(storeID)
			if err != nil {
				return 0, err
			}
			return files.EraseLeft(ctx, has)
		},
	})
	l.SetMayGrow(func() error {
		return e.checkFree(log, known, func(total int64) int64 { return min(peoplesMinFree, total/16) }, "to delete with")
	})
	return l, nil
}

// checkMinFree refuses what a mount would store in the reserve of the disk.
func (e embedded) checkMinFree(log *sqlitelog.Log, known *knownSpace, minFree *int64) error {
	return e.checkFree(log, known, func(total int64) int64 {
		if minFree != nil {
			return *minFree
		}
		return min(defaultMinFree, total/8)
	}, "for people")
}

// checkFree refuses what would be stored in a part of the disk that is kept for
// something else. How large it is follows from how large the disk is. Half of it may be
// in the database, where a deleted store has left room; the other half is for the
// write-ahead log.
func (e embedded) checkFree(log *sqlitelog.Log, known *knownSpace, reserveOf func(total int64) int64, what string) error {
	if known.isAmple(reserveOf) {
		return nil
	}
	free, total, err := durable.Space(e.dir)
	if err != nil {
		return err
	}
	known.note(free, total)
	reserve := reserveOf(total)
	if free >= reserve {
		return nil
	}
	reusable, err := log.Reusable(context.Background())
	if err != nil || free >= reserve/2 && free+reusable >= reserve {
		return err
	}
	return fmt.Errorf("%s are free on the disk of %s, of which %s are kept %s: %w",
		bytesize.Text(uint64(free)), e.dir, bytesize.Text(uint64(reserve)), what, syscall.ENOSPC)
}

func (e embedded) openLog(ctx context.Context, opts *Options) (*sqlitelog.Log, error) {
	if err := checkFormat(e.dir, opts.Create); err != nil {
		return nil, fmt.Errorf("%v: %w", e, err)
	}
	log, err := sqlitelog.Open(ctx, e.dir, &sqlitelog.Options{
		ReadOnly: opts.ReadOnly, Refresh: opts.Refresh, Busy: opts.Busy, Still: opts.Direct,
		Files: func(storeID string) (sqlitelog.Files, error) { return e.blobFiles(storeID) },
	})
	if errors.Is(err, fs.ErrNotExist) { // the process that made the format file was killed right after
		err = ErrNoStores
	}
	if errors.Is(err, versionlog.ErrRewritten) {
		err = fmt.Errorf("%w; nothing is written, so that what is left is not written over", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", e, err)
	}
	return log, nil
}

func (e embedded) losses(ctx context.Context) ([]Loss, error) {
	if checkFormat(e.dir, false) != nil { // open says what is wrong
		return nil, nil
	}
	found, err := sqlitelog.Losses(ctx, e.dir)
	return e.lost(found, err)
}

func (e embedded) acceptLosses(ctx context.Context) (lost []Loss, kept string, err error) {
	if checkFormat(e.dir, false) != nil {
		return nil, "", nil
	}
	found, kept, err := sqlitelog.AcceptLosses(ctx, e.dir)
	lost, err = e.lost(found, err)
	return lost, kept, err
}

func (e embedded) lost(found []sqlitelog.Loss, err error) ([]Loss, error) {
	var lost []Loss
	for _, l := range found {
		lost = append(lost, Loss{versionlog.Store{ID: l.StoreID, Slug: l.Slug}, l.What})
	}
	if err != nil {
		err = fmt.Errorf("%v: %w", e, err)
	}
	return lost, err
}

// blobs opens the blobs of a store: those that the log keeps, and larger ones
// and those of early versions in files. The disk tier of the cache is not for
// them: they are on this disk already.
func (e embedded) blobs(log *sqlitelog.Log, storeID string) (cas.Store, error) {
	files, err := e.blobFiles(storeID)
	if err != nil {
		return nil, err
	}
	return sizecas.New(log.Blobs(storeID), sqlitelog.MaxContent, files), nil
}

func (e embedded) blobFiles(storeID string) (*dircas.Store, error) {
	return dircas.Open(filepath.Join(e.dir, storesDir, storeID, blobsDir), nil)
}

// collect is Library.Collect for the contents in the log and in files.
func (e embedded) collect(ctx context.Context, log *sqlitelog.Log, storeID string, opts *CollectOptions) (*Garbage, error) {
	orphans, err := log.Collect(ctx, storeID, opts.Grace, opts.Keep, opts.contents)
	found := &Garbage{Contents: orphans.Contents, Bytes: orphans.Bytes}
	if err != nil || opts.Keep {
		return found, err
	}
	files, err := e.blobFiles(storeID)
	if err == nil {
		found.Temporary, err = files.Sweep(ctx)
	}
	return found, err
}

// checkFormat makes sure that dir is an embedded store this mneme understands,
// making it one if it is empty or missing and create is set. The format file
// comes before everything else, so a directory with other files but not that one is not a
// store.
//
// If mneme runs as root, only root may be able to change the directory: a user who can make
// links in it decides where root writes. Other files, and directories below, are checked
// when they are opened.
func checkFormat(dir string, create bool) error {
	root, err := safepath.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return ErrNoStores
		}
		if err = safepath.MkdirAll(dir, 0o700); err == nil {
			root, err = safepath.OpenRoot(dir)
		}
	}
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	text, err := root.ReadFile(formatFile)
	if err == nil {
		return checkFormatText(string(text))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sqlitelog.DatabaseName }) {
		return errNoFormat
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), durable.TempPrefix) { // another process about to write the format file
			return invalidf("the directory holds other files (%s) and no stores; name an empty or new one", e.Name())
		}
	}
	if !create {
		return ErrNoStores
	}
	if err := safepath.MkdirAll(dir, 0o700); err != nil { // durable, whichever process made it
		return err
	}
	return writeFormat(root)
}

// errNoFormat says that a library has lost the file that says its format.
var errNoFormat = errkind.New(errkind.Corrupt, fmt.Sprintf("the file %q is missing; if nothing else is, make it again with the line %q", formatFile, formatPrefix+strconv.Itoa(embeddedFormat)))

func writeFormat(dir *os.Root) error {
	return durable.WriteFile(dir, formatFile, []byte(formatPrefix+strconv.Itoa(embeddedFormat)+"\n"), 0o600)
}

func checkFormatText(text string) error {
	number, ok := strings.CutPrefix(text, formatPrefix)
	n, err := strconv.Atoi(strings.TrimSuffix(number, "\n"))
	switch {
	case !ok || err != nil || n < 1:
		return fmt.Errorf("the file %q is not one of mneme's: %q", formatFile, text)
	case n > embeddedFormat:
		return fmt.Errorf("format %d, this mneme reads up to %d: %w; use a newer mneme", n, embeddedFormat, versionlog.ErrFormat)
	}
	return nil
}
