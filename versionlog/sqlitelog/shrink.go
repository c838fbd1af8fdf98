package sqlitelog

import (
	"context"
	"errors"
	"fmt"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// incremental makes a database that is empty, or a copy, one that shrink can make
// smaller.
const incremental = `PRAGMA auto_vacuum = INCREMENTAL`

const (
	// keptFree is how many free pages a database keeps at least, for the commits to
	// come, or a sixteenth of it; shrinkPages is how many one transaction gives back.
	keptFree    = 16
	shrinkPages = 256

	// keptAhead is how many bytes of the write-ahead log stay on disk while no process
	// commits: as many as commits write before it is carried over, and some. A commit that
	// makes the file longer takes half as long again.
	keptAhead = 5 << 20
)

// Shrink gives the disk back the space that the files of the log do not need, as far as no
// process reads from them, and returns how many bytes that were.
func (l *Log) Shrink(ctx context.Context) (freed int64, err error) {
	if l.writer == nil || l.packer == nil {
		return 0, versionlog.ErrReadOnly
	}
	before := l.size()
	p := &packer{log: l, reading: l.reading}
	for more := true; more && err == nil; {
		if more, err = p.shrink(ctx); err == nil {
			err = ctx.Err()
		}
	}
	_, _ = l.writer.checkpoint(ctx, "TRUNCATE")
	return max(0, before-l.size()), err // others write meanwhile
}

// size is how many bytes the files of the log take.
func (l *Log) size() (sum int64) {
	for _, name := range []string{DatabaseName, DatabaseName + sqlite.WriteAheadSuffix} {
		if info, err := l.root.Stat(name); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// shrink makes the database smaller by some of its free pages, and reports whether it did. A
// database of an earlier format keeps its size, unless it is a copy.
func (p *packer) shrink(ctx context.Context) (bool, error) {
	type space struct {
		free, pages int64
		able        bool
	}
	var now space
	err := p.reading(ctx, func(from source) (err error) {
		now, err = queryOne(ctx, from, `SELECT freelist_count, page_count, auto_vacuum FROM pragma_freelist_count, pragma_page_count, pragma_auto_vacuum`,
			func(row *sqlite.Row) (space, error) {
				return space{row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt(2) == 2}, nil
			})
		return err
	})
	spare := now.free - max(keptFree, now.pages/16)
	if err != nil || !now.able || spare <= 0 {
		return false, err
	}
	w := p.log.writer
	err = w.unsynced(ctx, func(context.Context) error {
		return translate(w.conn.Script(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(spare, shrinkPages))))
	})
	return err == nil, err
}

// cut cuts the write-ahead log to keptAhead, and reports whether it did, as checkpoint does. SQLite
// cuts it in a transaction that begins at the start of the file again, here one that changes nothing.
func (w *writer) cut(ctx context.Context) (done bool, err error) {
	if _, err := w.takeTurn(ctx); err != nil {
		return false, err
	}
	defer func() { <-w.turn }()
	if done, err := w.carryOver("RESTART"); err != nil || !done {
		return false, err
	}
	limit := func(bytes int) error { return w.conn.Script(fmt.Sprintf(`PRAGMA journal_size_limit = %d`, bytes)) }
	if err = limit(keptAhead); err == nil {
		err = w.conn.Begin()
	}
	format := 0 // of a newer mneme, maybe
	if err == nil {
		err = w.conn.Each(`PRAGMA user_version`, func(row *sqlite.Row) error {
			format = row.ColumnInt(0)
			return nil
		})
	}
	if err == nil {
		err = w.conn.Script(fmt.Sprintf(`PRAGMA user_version = %d`, format))
	}
	if err == nil {
		err = w.conn.Commit()
	}
	if err != nil {
		_ = w.conn.Rollback()
	}
	if err = translate(errors.Join(err, limit(sqlite.KeptWriteAhead))); errors.Is(err, errLocked) {
		return false, nil
	}
	return err == nil, err
}
