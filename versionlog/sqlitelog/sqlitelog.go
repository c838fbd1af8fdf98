// Package sqlitelog keeps version logs in one SQLite database in a directory,
// with no server. Any number of processes of one machine may have it open: the
// write-ahead log lets readers and one writer work side by side, and a small
// file that every commit touches wakes those that wait in other processes.
package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/sqlite"
	"mneme/internal/wallclock"
	"mneme/versionlog"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"
)

const (
	// DatabaseName is the name of the file that holds a log, in its directory.
	DatabaseName = "log.db"
	changedName  = "changed"

	// maxReaders is how many reads run at once. They take microseconds.
	maxReaders = 4
	// busyPages is how much of the database each connection of a busy log keeps in memory, in KiB:
	// the inner pages of the indexes of 100,000 memories, and some of the others.
	busyPages = 8 << 10
)

// How many rows an iterator reads at first, where its caller may soon have enough; how many
// later; how many commit records, which may be large; and how many rows to find names in,
// most of which may turn out to lie deeper. Between pages it holds no read transaction, so a slow consumer
// never keeps the write-ahead log from being checkpointed. Tests have smaller
// pages.
var firstRows, pageRows, pageRecords, pageNames = 16, 1000, 200, 100

// Options adjust a Log.
type Options struct {
	ReadOnly bool             // refuse commits and changes of stores with versionlog.ErrReadOnly
	Refresh  time.Duration    // how often Wait looks on its own, should events be missing; 0 is 1 s
	Now      func() time.Time // the clock that stamps commits; nil is that of the machine, as files have it
	Busy     bool             // many read at once, at random: keep more of the database in memory
	Still    bool             // leave packing, and what redactions left, to other processes: what verifies sees what is there

	// Files opens the contents of a store that the log does not keep itself: those of
	// the past are packed into the log, and removed there. Nil: there are none.
	Files func(storeID string) (Files, error)
}

// Log is a versionlog.Log in a directory.
type Log struct {
	root    *os.Root   // the directory
	db      *sqlite.DB // for readers
	stores  knownStores
	writer  *writer // nil when read-only
	recent  recent
	purger  purger
	changes *changes
	tips    tips
	refresh time.Duration
	now     func() time.Time
	clock   *wallclock.Clock // of which now is the own one
	timed   bool             // whether the clock is held against that of files

	format atomic.Int64                        // of the database, or an earlier one
	files  func(storeID string) (Files, error) // nil: there are none
	known  sync.Map                            // of storeID: the Files that were opened
	packer *packer                             // nil when read-only, or still

	carrier *carrier // nil when read-only, or still
}

var _ versionlog.Log = (*Log)(nil)

// Open opens the log in directory dir, and creates both when they are not
// there and opts do not say ReadOnly. Errors: versionlog.ErrFormat when a newer
// mneme made it, ErrBusy, fs.ErrNotExist (read-only), versionlog.ErrRewritten when
// it lacks what was acknowledged (not read-only; see Losses), safepath.ErrUntrusted
// when as root others may change it.
func Open(ctx context.Context, dir string, opts *Options) (*Log, error) {
	if opts == nil {
		opts = &Options{}
	}
	l := &Log{refresh: opts.Refresh, now: opts.Now, timed: opts.Now == nil, files: opts.Files}
	if l.refresh <= 0 {
		l.refresh = time.Second
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.clock = wallclock.New(func() time.Time { return l.now() })
	err := l.open(ctx, dir, opts)
	if err != nil {
		if errors.Is(err, sqlite3.CANTOPEN) && errors.Is(unix.Access(dir, unix.W_OK), unix.EROFS) {
			err = fmt.Errorf("%w: the log is written to also by those who read it; mount its file system for writing, or copy the directory: %w", unix.EROFS, err)
		}
		return nil, fmt.Errorf("open log %s: %w", dir, errors.Join(err, l.Close()))
	}
	return l, nil
}

func (l *Log) open(ctx context.Context, dir string, opts *Options) error {
	readOnly := opts.ReadOnly
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := l.prepareFiles(ctx, abs, readOnly); err != nil {
		return err
	}
	l.db = database(l.path(DatabaseName), readOnly)
	if opts.Busy {
		l.db.SetPageCache(busyPages)
	}
	if format := l.stores.format; format < schemaFormat {
		l.db.Rewrite(func(text string) string { return inFormat(text, format) })
	}
	l.stores.db = l.db
	l.changes = newChanges(l.root)
	if readOnly {
		return nil
	}
	ahead := carriedMost
	if opts.Still {
		ahead = carriedFrom
	}
	if l.writer, err = newWriter(ctx, l.db, ahead); err != nil {
		return err
	}
	if err := l.syncFound(); err != nil {
		return err
	}
	l.tips = openTips(l.root)
	if err := l.changes.openForTouch(); err != nil {
		return err
	}
	if !opts.Still {
		l.carrier = startCarrier(l.db, l.writer.checkpoint)
		l.packer = startPacker(l)
	}
	return nil
}

// prepareFiles leaves a directory with a database that this mneme understands;
// one to be written to has the newest format then.
func (l *Log) prepareFiles(ctx context.Context, dir string, readOnly bool) (err error) {
	if l.root, err = safepath.OpenRoot(dir); errors.Is(err, fs.ErrNotExist) && !readOnly {
		if err = safepath.MkdirAll(dir, 0o700); err == nil {
			l.root, err = safepath.OpenRoot(dir)
		}
	}
	if err != nil {
		return err
	}
	path := l.path(DatabaseName)
	if readOnly {
		found, err := inspect(ctx, path, nil)
		l.stores.format = found
		if err == nil && found == 0 {
			err = fmt.Errorf("no log there: %w", fs.ErrNotExist)
		}
		return err
	}
	l.stores.format = schemaFormat
	// This comes before any process opens the database to write: such a process may write over
	// the rest of the write-ahead log.
	found, losses, err := inspectLosses(ctx, l.root)
	if err == nil && len(losses) > 0 {
		err = fmt.Errorf("%w: %s", versionlog.ErrRewritten, losses[0])
	}
	if err != nil || found == schemaFormat {
		return err
	}
	if err := safepath.MkdirAll(dir, 0o700); err != nil { // durable, whichever process made it
		return err
	}
	return bringSchema(ctx, path)
}

// syncFound makes durable what the write-ahead log holds already. A process that was killed may
// have written a commit without syncing it; SQLite takes that for good, and a caller that got no
// reply and repeats the commit would be told that the state that it asks for is there already.
func (l *Log) syncFound() error {
	f, err := l.root.Open(DatabaseName + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(durable.Sync(f), f.Close())
}

func (l *Log) path(name string) string { return filepath.Join(l.root.Name(), name) }

// database does not yet touch the file.
func database(path string, readOnly bool) *sqlite.DB { return sqlite.New(path, readOnly, maxReaders) }

// renew opens the connections again.
func (l *Log) renew() error {
	if l.writer != nil {
		if err := l.writer.renew(context.Background(), l.db); err != nil {
			return err
		}
	}
	return translate(l.db.Renew())
}

// Close releases the database and ends packing and the watch for changes.
func (l *Log) Close() error {
	var errs []error
	l.packer.close()
	l.carrier.close()
	if l.changes != nil {
		errs = append(errs, l.changes.close())
	}
	errs = append(errs, l.tips.close())
	if l.writer != nil {
		errs = append(errs, l.writer.conn.Close())
	}
	if l.db != nil {
		errs = append(errs, l.db.Close())
	}
	if l.root != nil {
		errs = append(errs, l.root.Close())
	}
	return errors.Join(errs...)
}
