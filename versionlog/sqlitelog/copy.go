package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mneme/cas"
	"mneme/internal/durable"
	"mneme/internal/sqlite"
)

// copyPeriod is how often a caller that waits for a copy is told how far it is.
const copyPeriod = 100 * time.Millisecond

// CopyTo writes the log with all its stores, as of one moment, into the directory
// dir, which must exist and hold no log. Others may read and commit meanwhile;
// the write-ahead log grows by what they commit. The copy has the newest format
// and is durable when CopyTo returns nil; otherwise it is of no use. Now and then
// progress is called with how many bytes are written, and of about how many; it
// may be nil.
func (l *Log) CopyTo(ctx context.Context, dir string, progress func(done, total int64)) error {
	path := filepath.Join(dir, DatabaseName)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy log: %s: %w", path, errors.Join(fs.ErrExist, err))
	}
	if err := copyDatabase(ctx, l.db, path, progress); err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	if err := bringSchema(ctx, path); err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	return syncFile(path)
}

// Retain removes all stores but those of the ids from a log that no process has open, and makes
// its file as small as if they had never been there. The remaining stores are durable when it
// returns nil; otherwise the log is of no use.
func Retain(ctx context.Context, dir string, ids []string) error {
	path := filepath.Join(dir, DatabaseName)
	whole := filepath.Join(dir, durable.TempPrefix+DatabaseName)
	if err := os.Rename(path, whole); err != nil {
		return err
	}
	db := database(whole, false)
	err := db.With(ctx, func(c *sqlite.Conn) error {
		w := &writer{turn: make(chan struct{}, 1), conn: c}
		return w.transaction(ctx, func(ctx context.Context) error { return w.retain(ctx, ids) })
	})
	if err == nil {
		err = copyDatabase(ctx, db, path, nil)
	}
	err = errors.Join(err, db.Close(), os.Remove(whole))
	if err != nil {
		return fmt.Errorf("retain stores: %w", err)
	}
	return syncFile(path)
}

func (w *writer) retain(ctx context.Context, ids []string) error {
	stores, err := queryAll(ctx, w, readStores(schemaFormat), scanStore)
	if err != nil {
		return err
	}
	for _, s := range stores {
		if slices.Contains(ids, s.ID) {
			continue
		}
		if err := w.run(dropStore, s.num); err != nil {
			return err
		}
	}
	return dropLeft(ctx, w, func(t leftTable, num int64) error { return w.dropRows(ctx, t, num) })
}

// copyDatabase writes a copy of db to path, which it tries again when it comes
// upon a lock.
func copyDatabase(ctx context.Context, db *sqlite.DB, path string, progress func(done, total int64)) error {
	conn, err := connect(ctx, db)
	if err != nil {
		return err
	}
	_ = conn.Script(incremental) // for the copy; of the database itself only an empty one can become incremental
	var total int64
	err = retryBusy(ctx, func() (err error) {
		total, err = conn.Size()
		return translate(err)
	})
	if err == nil {
		stop := watchSize(path, total, progress)
		err = retryBusy(ctx, func() error {
			_ = os.Remove(path)
			return translate(conn.CopyTo(ctx, path))
		})
		stop()
	}
	return errors.Join(err, conn.Close())
}

// watchSize calls progress with the size of a file until stop is called.
func watchSize(path string, total int64, progress func(done, total int64)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(copyPeriod)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				if info, err := os.Stat(path); err == nil {
					progress(info.Size(), total)
				}
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(durable.Sync(f), f.Close()); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// ContentsElsewhere returns the digests of all contents that a store's versions
// have, past ones too, and that the log does not keep itself.
func (l *Log) ContentsElsewhere(ctx context.Context, storeID string) ([]cas.Digest, error) {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, l.db, contentsElsewhere, scanDigest, s.num)
}
