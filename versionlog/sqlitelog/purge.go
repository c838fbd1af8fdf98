package sqlitelog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"mneme/cas"
	"mneme/internal/durable"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// purgingName is the file that is there while traces of erased versions may be left.
const purgingName = "purging"

const purgingText = "mneme purging 1\n"

// purgePatience is how long a purge waits for processes that read from the write-ahead log.
var purgePatience = 5 * time.Second

// purger removes the traces that erased versions leave after their transaction:
//
//  1. the file purging exists, and is durable, before the transaction begins;
//  2. files of contents that no version has go, while no process can commit: a commit that needs
//     one comes before, and is seen, or looks for it in vain, see missing. Contents that were
//     stored again go, too, see removeErasedOrphans;
//  3. the database is rewritten (VACUUM). SQLite overwrites deleted rows with zeroes, but where
//     rows move from one page to another, the gap that they leave keeps its bytes;
//  4. the write-ahead log, which has the pages as they were, is carried over and cut to nothing.
//     It waits for processes that read from it;
//  5. the file purging goes, if no other transaction has rewritten it meanwhile.
//
// Whatever ends it, the file says that there is something to do, to the next Purge, and to each
// process that has the log open to write, once no process has committed for a while: when it
// opens the log or commits, and a while after it has seen a redaction by another one. All steps
// may be repeated. Looking for traces instead of step 3 was dropped: the bytes in a gap may be
// any part of a row, and lines that other versions share are no trace.
type purger struct {
	mu   sync.Mutex          // held while a purge is under way
	done []versionlog.Purged // not yet reported to any caller

	rewritten []byte // the note for which the database was last rewritten
	whole     bool   // all files were removed before
}

// mayLeaveTraces notes that the transaction which it is called in erases versions.
func (l *Log) mayLeaveTraces() error {
	return durable.WriteFile(l.root, purgingName, []byte(purgingText+rand.Text()+"\n"), 0o600)
}

// leftNoTraces removes the note, if it is still the one that was there before.
func (l *Log) leftNoTraces(ctx context.Context, before []byte) error {
	return l.writer.transaction(ctx, func(context.Context) error { // in which nothing else notes
		now, err := l.root.ReadFile(purgingName)
		if err == nil && bytes.Equal(now, before) {
			err = l.root.Remove(purgingName)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// hasTraces reports whether there may be something to purge.
func (l *Log) hasTraces() bool {
	_, err := l.root.Lstat(purgingName)
	return err == nil
}

// Purge is one of the log's Capabilities.
func (l *Log) Purge(ctx context.Context, _ string, _ []string) ([]versionlog.Purged, error) {
	if l.writer == nil {
		return nil, versionlog.ErrReadOnly
	}
	l.purger.mu.Lock()
	defer l.purger.mu.Unlock()
	err := l.purge(ctx, false)
	done := l.purger.done
	l.purger.done = nil
	return done, err
}

// purgeLeft does the work of another call of Purge, in case no caller makes one. A step that
// fails is tried again when no process has committed for a while.
func (l *Log) purgeLeft(ctx context.Context) {
	if !l.hasTraces() {
		return
	}
	l.purger.mu.Lock()
	defer l.purger.mu.Unlock()
	_ = l.purge(ctx, true) // a caller that asks hears of it
}

// purge does the remaining steps, and notes their outcome. With again it may be called every
// minute, as while a process reads: the database is then not rewritten for the same note, unless
// files were removed that were in the way. purger.mu is held.
func (l *Log) purge(ctx context.Context, again bool) error {
	noted, err := l.root.ReadFile(purgingName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	left := l.purger.done[:0]
	for _, p := range l.purger.done { // the steps that failed last time are reported again
		if p.Why == "" {
			left = append(left, p)
		}
	}
	l.purger.done = left
	clean := true
	note := func(place string, err error) {
		p := versionlog.Purged{Place: place}
		if err != nil {
			p.Why, clean = err.Error(), false
		} else {
			p.At = l.clock.Now().UTC()
		}
		l.purger.done = append(l.purger.done, p)
	}
	stores, err := queryAll(ctx, l.db, `SELECT num, id FROM stores`, func(row *sqlite.Row) (backlog, error) {
		return backlog{num: row.ColumnInt64(0), id: row.ColumnText(1)}, nil
	})
	if err != nil {
		return err
	}
	for _, s := range stores {
		n, err := l.removeErased(ctx, s.num, s.id)
		if err == nil {
			var more int
			more, err = l.removeErasedOrphans(ctx, s.num, s.id)
			n += more
		}
		switch {
		case err != nil:
			note("files of contents", err)
		case n > 0:
			note(fmt.Sprintf("files of contents (%d)", n), nil)
		}
	}
	if done := bytes.Equal(l.purger.rewritten, noted) && (l.purger.whole || !clean); !again || !done {
		whole, err := clean, l.rewrite(ctx)
		if note(DatabaseName, err); err == nil {
			l.purger.rewritten, l.purger.whole = noted, whole
		}
	}
	note(DatabaseName+sqlite.WriteAheadSuffix, l.cutWriteAhead(ctx))
	if err := ctx.Err(); err != nil || !clean {
		return err
	}
	return l.leftNoTraces(ctx, noted)
}

// removeErased removes the files of contents that no version of a store has, and
// returns how many there were.
func (l *Log) removeErased(ctx context.Context, num int64, storeID string) (n int, err error) {
	files, err := l.filesOf(storeID)
	if err != nil || files == nil {
		return 0, err
	}
	w := l.writer
	err = w.transaction(ctx, func(ctx context.Context) error {
		left, err := queryAll(ctx, w, filesLeft, scanDigest, num)
		for _, d := range left {
			if err != nil {
				break
			}
			var needed bool
			if needed, err = w.isNeeded(ctx, num, d); err != nil || needed { // or packed, see removeFiles
				continue
			}
			if err = files.Delete(ctx, d); err == nil {
				n++
				err = w.run(fileGone, num, d[:])
			}
		}
		return err
	})
	return n, err
}

// rewrite rewrites the database, with nothing in it but its rows.
func (l *Log) rewrite(ctx context.Context) error {
	w := l.writer
	left, err := w.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer func() { <-w.turn }()
	return retryBusyFor(ctx, left, func() error { return translate(w.conn.Script(`VACUUM`)) })
}

// errBeingRead says that the write-ahead log cannot be cut now.
var errBeingRead = errors.New("a process is reading from it; it is erased when that has ended and nobody writes, or run the redaction once more")

// cutWriteAhead carries the write-ahead log over into the database, and cuts it to
// nothing.
func (l *Log) cutWriteAhead(ctx context.Context) error {
	for began := time.Now(); ; {
		if done, err := l.writer.checkpoint(ctx, "TRUNCATE"); err != nil || done {
			return err
		}
		if time.Since(began) > purgePatience {
			return errBeingRead
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// errGone says that a commit needs a content that is not stored.
var errGone = fmt.Errorf("%w: the content of a change is not stored; it may have been erased since it was", cas.ErrNotFound)

// missing refuses a commit whose contents are not there: those that did not come with it may have
// been erased since they were stored. Without files this is not known.
func (l *Log) missing(ctx context.Context, s *storeRow, c *versionlog.Commit, changes []versionlog.Change) error {
	if l.files == nil {
		return nil
	}
	var files Files
	carried, put := map[cas.Digest]bool{}, map[cas.Digest]bool{}
	for i := range changes {
		if changes[i].Content != nil {
			carried[changes[i].Digest] = true
		}
		put[changes[i].Digest] = true
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		if v.Digest.IsZero() || carried[v.Digest] || !put[v.Digest] {
			continue
		}
		if files == nil {
			var err error
			if files, err = l.filesOf(s.ID); err != nil {
				return err
			}
		}
		for _, text := range []string{blobThere, packedThere} {
			there, err := exists(queryOne(ctx, l.writer, text, scanDigest, s.num, v.Digest[:]))
			if err != nil {
				return err
			}
			carried[v.Digest] = carried[v.Digest] || there
		}
		if carried[v.Digest] {
			continue
		}
		if there, err := files.Has(ctx, v.Digest); err != nil || !there {
			return errors.Join(err, errGone)
		}
		if err := l.writer.run(fileGone, s.num, v.Digest[:]); err != nil { // it no longer has to go
			return err
		}
	}
	return nil
}

// dropStored removes files that were stored for a commit which was in the history already,
// where no version has their contents any more.
func (l *Log) dropStored(ctx context.Context, s *storeRow, changes []versionlog.Change) error {
	if l.files == nil {
		return nil
	}
	var files Files
	for i := range changes {
		c := &changes[i]
		if !c.Puts() || c.Content != nil || c.Digest.IsZero() {
			continue
		}
		if files == nil {
			erased, err := hasErased(ctx, l.writer, s.num)
			if err != nil || !erased {
				return err
			}
			if files, err = l.filesOf(s.ID); err != nil || files == nil {
				return err
			}
		}
		needed, err := l.writer.isNeeded(ctx, s.num, c.Digest)
		if err != nil {
			return err
		}
		if needed {
			continue
		}
		if err := files.Delete(ctx, c.Digest); err != nil { // a purge tries it again
			return l.mayLeaveTraces()
		}
	}
	return nil
}
