package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

const (
	eraseVersion = `UPDATE versions SET path = '', from_path = '', sha256 = NULL, size = 0, spelling = '' WHERE store = ? AND seq = ? AND ord = ?`
	setRecord    = `UPDATE commits SET record = ? WHERE store = ? AND seq = ?`
	setFrame     = `UPDATE packed_records SET data = ? WHERE store = ? AND seq = ?`

	setTotals = `UPDATE stores SET total_bytes = ?, total_memories = ? WHERE num = ?`

	pathRowAt = `SELECT seq, ord FROM paths WHERE store = ? AND path = ?`
	movePath  = `UPDATE paths SET seq = ?, ord = ?, live = 0 WHERE store = ? AND path = ?`
	dropPath  = `DELETE FROM paths WHERE store = ? AND path = ?`

	// newestAt is the newest version that took place at a path.
	newestAt = `SELECT seq, ord FROM (
		SELECT * FROM (SELECT seq, ord FROM versions INDEXED BY versions_path WHERE store = ?1 AND path = ?2 ORDER BY seq DESC LIMIT 1)
		UNION ALL
		SELECT * FROM (SELECT v.seq, v.ord FROM versions v WHERE v.store + 0 = ?1 AND CASE v.op WHEN 'renamed' THEN v.from_path ELSE v.path END = ?2
			AND v.op IN ('deleted', 'renamed') ORDER BY v.seq DESC LIMIT 1)
		) ORDER BY seq DESC LIMIT 1`
)

// eraser takes versions out of the history of a store, within the transaction that
// commits their redaction:
//
//  1. each record that has one is rewritten without it, in its row or in its frame, and so is the
//     row of the version;
//  2. a row of the table paths that tells of one tells of the newest other version that
//     took place there, or goes;
//  3. a content that no version has any longer goes, after the contents that lean on it were
//     encoded against another. If it is in a file, too, the file is noted in files_left: it is
//     removed after the commit, see Log.purge.
//
// A record that cannot be read ends it: nothing is erased by halves. No slice that packing
// has planned before is applied then, for it may have what was erased, be it a record
// only: see progress.removed.
type eraser struct {
	log    *Log
	w      *writer
	store  *storeRow
	frames map[int64]*recordFrame // those that have changed, by their first commit

	was []versionlog.Version // what was erased, as it was
}

// redact erases versions, if there are any, and makes the totals of s those of the remaining
// versions.
func (l *Log) redact(ctx context.Context, s *storeRow, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := l.mayLeaveTraces(); err != nil {
		return err
	}
	e := &eraser{log: l, w: l.writer, store: s, frames: map[int64]*recordFrame{}}
	bySeq := map[uint64][]string{}
	for _, id := range ids {
		if seq, _, err := versionlog.LocateVersion(id); err == nil {
			bySeq[seq] = append(bySeq[seq], id)
		}
	}
	for seq, ids := range bySeq {
		if err := e.commit(ctx, int64(seq), ids); err != nil {
			return fmt.Errorf("erase versions of commit %d: %w", seq, err)
		}
	}
	for first, frame := range e.frames {
		data, err := new(codec).compress(bytes.Join(frame.lines, []byte{'\n'}), nil)
		if err == nil {
			err = e.w.run(setFrame, data, s.num, first)
		}
		if err != nil {
			return err
		}
	}
	if err := e.paths(ctx); err != nil {
		return err
	}
	if err := e.contents(ctx); err != nil {
		return err
	}
	if err := e.w.outdateSlices(ctx, s.num); err != nil {
		return err
	}
	totals := s.tip.Totals.Erased(e.was)
	s.tip.Totals = totals
	return e.w.run(setTotals, totals.Bytes, totals.Memories, s.num)
}

// commit erases versions of one commit, in its record and in their rows.
func (e *eraser) commit(ctx context.Context, seq int64, ids []string) error {
	of := &records{source: e.w, store: e.store.num}
	row, err := queryOne(ctx, e.w, recordAt, scanRecordRow, e.store.num, seq)
	if err != nil {
		return err
	}
	framed := len(row.record) == 0
	var frame *recordFrame
	if framed {
		if frame, err = e.frame(ctx, of, seq); err != nil {
			return err
		}
		row.record = frame.at(seq)
	}
	c, err := row.decode()
	if err != nil {
		return err
	}
	for ord := range c.Versions {
		v := c.Versions[ord]
		if v.Redacted() || !slices.Contains(ids, v.ID) {
			continue
		}
		if err := e.w.run(eraseVersion, e.store.num, seq, ord); err != nil {
			return err
		}
		e.was = append(e.was, v)
		c = c.Erase(v.ID)
	}
	record, err := versionlog.EncodeRecord(c)
	if err != nil {
		return err
	}
	if framed {
		frame.lines[seq-frame.first] = record
		return nil
	}
	return e.w.run(setRecord, record, e.store.num, seq)
}

// frame returns the frame that has the record of a commit, to be changed.
func (e *eraser) frame(ctx context.Context, of *records, seq int64) (*recordFrame, error) {
	for _, f := range e.frames {
		if f.at(seq) != nil {
			return f, nil
		}
	}
	if _, err := of.packed(ctx, seq); err != nil {
		return nil, err
	}
	f := of.frame
	e.frames[f.first] = &f
	return &f, nil
}

// paths makes the rows of paths agree with the remaining history.
func (e *eraser) paths(ctx context.Context) error {
	type place struct{ seq, ord int64 }
	scan := func(row *sqlite.Row) (place, error) { return place{row.ColumnInt64(0), row.ColumnInt64(1)}, nil }
	gone := map[place]bool{}
	var paths []string
	for i := range e.was {
		v := &e.was[i]
		_, ord, err := versionlog.LocateVersion(v.ID)
		if err != nil {
			return err
		}
		gone[place{int64(v.Seq), int64(ord)}] = true
		paths = append(paths, v.Path)
		if v.From != "" {
			paths = append(paths, v.From)
		}
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		now, err := queryOne(ctx, e.w, pathRowAt, scan, e.store.num, path)
		if errors.Is(err, versionlog.ErrNotFound) || err == nil && !gone[now] {
			continue
		}
		if err != nil {
			return err
		}
		left, err := queryOne(ctx, e.w, newestAt, scan, e.store.num, path)
		switch {
		case errors.Is(err, versionlog.ErrNotFound):
			err = e.w.run(dropPath, e.store.num, path)
		case err == nil:
			err = e.w.run(movePath, left.seq, left.ord, e.store.num, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contents removes the contents that no version has any longer.
func (e *eraser) contents(ctx context.Context) error {
	seen := map[cas.Digest]bool{}
	blobs := e.log.Blobs(e.store.ID)
	files, err := e.log.filesOf(e.store.ID)
	if err != nil {
		return err
	}
	for i := range e.was {
		d := e.was[i].Digest
		if d.IsZero() || seen[d] {
			continue
		}
		seen[d] = true
		if needed, err := e.w.isNeeded(ctx, e.store.num, d); err != nil || needed {
			if err != nil {
				return err
			}
			continue
		}
		if err := blobs.remove(ctx, e.w, e.store.num, d); err != nil {
			return err
		}
		if files == nil {
			continue
		}
		there, err := files.Has(ctx, d)
		if err == nil && there {
			err = e.w.run(leaveFile, e.store.num, d[:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
