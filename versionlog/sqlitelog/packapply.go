package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/cas"
)

// errMoved says that the state on which a slice was planned has changed. It is planned again.
var errMoved = errors.New("the store has changed since")

const (
	setProgress = `INSERT INTO packing (store, seq, ord, gone) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET seq = excluded.seq, ord = excluded.ord, gone = excluded.gone`
	insertPacked = `INSERT INTO packed (store, sha256, base, place, data) VALUES (?, ?, ?, ?, ?)`
	updatePacked = `UPDATE packed SET base = ?, place = ?, data = ? WHERE id = ?`
	dropPacked   = `DELETE FROM packed WHERE id = ?`
	leaveFile    = `INSERT INTO files_left (store, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING`
	filesLeft    = `SELECT sha256 FROM files_left WHERE store = ?`
	fileGone     = `DELETE FROM files_left WHERE store = ? AND sha256 = ?`

	// versionWith finds a version with a content.
	versionWith = `SELECT 1 FROM versions INDEXED BY versions_content WHERE store = ?1 AND sha256 IS NOT NULL
		AND substr(sha256, 1, 8) = substr(?2, 1, 8) AND sha256 = ?2 LIMIT 1`
)

// unsynced is a transaction that need not be durable, and that does not wait for other
// processes: errLocked.
func (w *writer) unsynced(ctx context.Context, fn func(context.Context) error) error {
	if _, err := w.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-w.turn }()
	return w.conn.Unsynced(func() error {
		if err := translate(w.conn.Begin()); err != nil {
			return err
		}
		err := fn(context.WithoutCancel(ctx))
		if err == nil {
			err = translate(w.conn.Commit())
		}
		if err != nil {
			_ = w.conn.Rollback()
		}
		return err
	})
}

// apply makes a slice the case. errMoved.
func (l *Log) apply(ctx context.Context, s *slice) error {
	transaction := l.writer.unsynced
	if len(s.files) > 0 { // which are removed then
		transaction = l.writer.transaction
	}
	return transaction(ctx, func(ctx context.Context) error { return l.writer.apply(ctx, s) })
}

func (w *writer) apply(ctx context.Context, s *slice) error {
	if err := w.stillHolds(ctx, s); err != nil {
		return err
	}
	for _, row := range s.rows {
		if err := w.putPacked(ctx, s.store, row); err != nil {
			return err
		}
	}
	if s.frame != nil {
		if err := w.putFrame(s.store, s.frame); err != nil {
			return err
		}
	}
	for _, d := range s.gone {
		if err := w.run(dropBlob, s.store, d[:]); err != nil {
			return err
		}
	}
	for _, d := range s.files {
		if err := w.run(leaveFile, s.store, d[:]); err != nil {
			return err
		}
	}
	for _, data := range s.whole {
		if err := w.keep(s.store, cas.Sum(data), data); err != nil {
			return err
		}
	}
	return w.run(setProgress, s.store, s.to.seq, s.to.ord, s.from.removed)
}

// stillHolds makes sure that a slice may be applied.
func (w *writer) stillHolds(ctx context.Context, s *slice) error {
	there, err := exists(queryOne(ctx, w, `SELECT 1 FROM stores WHERE num = ?`, scanMicros, s.store))
	if err != nil {
		return err
	}
	now, err := progressIn(ctx, w, s.store)
	if err != nil {
		return err
	}
	if !there || now != s.from {
		return errMoved
	}
	c := &contents{source: w, store: s.store}
	for _, d := range s.gone {
		if isHead, err := c.isHead(ctx, d, s.tip); err != nil || isHead {
			return errors.Join(err, errMoved)
		}
	}
	return nil
}

// putPacked writes a row as it is planned.
func (w *writer) putPacked(ctx context.Context, store int64, row *plannedRow) error {
	c := &contents{source: w, store: store}
	var base any
	if !row.base.IsZero() {
		b, err := c.row(ctx, row.base)
		if err != nil || b == nil {
			return errors.Join(err, errMoved)
		}
		base = b.id
	}
	var frame any // nil is NULL
	if row.frame != nil {
		frame = row.frame
	}
	old, err := c.row(ctx, row.digest)
	switch {
	case err != nil:
		return err
	case old == nil:
		return w.run(insertPacked, store, row.digest[:], base, int64(row.place), frame)
	case row.frame == nil && old.frame != nil: // no mark, for another packer has packed it
		return errMoved
	}
	return w.run(updatePacked, base, int64(row.place), frame, old.id)
}

// remove takes a content away for good. Contents that lean on it then lean on the one that it
// leant on. A slice that was planned before is not applied.
func (b *Blobs) remove(ctx context.Context, w *writer, num int64, d cas.Digest) error {
	files, err := b.log.filesOf(b.storeID)
	if err != nil {
		return err
	}
	c := &contents{source: w, store: num, files: files}
	row, err := c.row(ctx, d)
	if err != nil {
		return err
	}
	if row != nil {
		if err := w.leave(ctx, c, row); err != nil {
			return err
		}
	}
	if err := w.run(dropBlob, num, d[:]); err != nil {
		return err
	}
	return w.outdateSlices(ctx, num)
}

// outdateSlices has no slice of a store applied that was planned before.
func (w *writer) outdateSlices(ctx context.Context, num int64) error {
	now, err := progressIn(ctx, w, num)
	if err != nil {
		return err
	}
	return w.run(setProgress, num, now.seq, now.ord, now.removed+1)
}

// leave removes a row, on which nothing leans then.
func (w *writer) leave(ctx context.Context, c *contents, row *packed) error {
	leaning, err := queryAll(ctx, w, packedOn, scanPacked, row.id)
	if err != nil {
		return err
	}
	var base []byte
	var baseID any
	if row.base != 0 {
		under, err := c.rowByID(ctx, row.base)
		if err == nil && under != nil {
			if base, err = c.bytes(ctx, under); err == nil {
				baseID = under.id
			}
		}
		if onlyOther(err) != nil {
			return err
		}
	}
	for i := range leaning {
		p := &leaning[i]
		data, err := c.unpack(ctx, p)
		if isDamage(err) { // it is lost already
			continue
		}
		if err != nil {
			return err
		}
		frame, err := c.codec.compress(data, base)
		if err != nil {
			return fmt.Errorf("content %v, which leans on it: %w", p.digest, err)
		}
		if err := w.run(updatePacked, baseID, int64(p.place), frame, p.id); err != nil {
			return err
		}
	}
	return w.run(dropPacked, row.id)
}

// bytes returns the bytes of a row, be it a mark.
func (c *contents) bytes(ctx context.Context, row *packed) ([]byte, error) {
	if row.frame == nil {
		data, _, err := c.whole(ctx, row.digest)
		return data, err
	}
	return c.unpack(ctx, row)
}

// removeFiles removes the files of a store whose contents are packed.
func (p *packer) removeFiles(ctx context.Context, num int64, storeID string) error {
	files, err := p.log.filesOf(storeID)
	if err != nil || files == nil {
		return err
	}
	if p.log.hasTraces() {
		if _, err := p.log.removeErased(ctx, num, storeID); err != nil {
			return err
		}
	}
	var left, packed []cas.Digest
	err = p.reading(ctx, func(from source) error {
		if left, err = queryAll(ctx, from, filesLeft, scanDigest, num); err != nil {
			return err
		}
		for _, d := range left {
			ok, err := (&contents{source: from, store: num, files: files}).isSpare(ctx, d)
			if err != nil {
				return err
			}
			if ok {
				packed = append(packed, d)
			}
		}
		return nil
	})
	for _, d := range packed {
		if err == nil {
			err = files.Delete(ctx, d)
		}
	}
	if err != nil || len(left) == 0 {
		return err
	}
	w := p.log.writer
	return w.unsynced(ctx, func(ctx context.Context) error {
		for _, d := range left {
			// A redaction may have come meanwhile, whose files are not removed yet.
			done := slices.Contains(packed, d)
			if !done {
				if done, err = w.isNeeded(ctx, num, d); err != nil {
					return err
				}
			}
			if done {
				if err := w.run(fileGone, num, d[:]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// isNeeded reports whether a version of a store has a content.
func (w *writer) isNeeded(ctx context.Context, store int64, d cas.Digest) (bool, error) {
	return exists(queryOne(ctx, w, versionWith, scanMicros, store, d[:]))
}

// isSpare reports whether the file of a content may go: it is no head's again, and the
// frame yields it.
func (c *contents) isSpare(ctx context.Context, d cas.Digest) (bool, error) {
	if isHead, err := c.isHead(ctx, d, 0); err != nil || isHead {
		return false, err
	}
	row, err := c.row(ctx, d)
	if err != nil || row == nil || row.frame == nil {
		return false, err
	}
	_, err = c.decode(ctx, row, false)
	return err == nil, onlyOther(err)
}
