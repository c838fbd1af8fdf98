package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"mneme/versionlog"
)

// frameRecords is how many records go into a frame. Tests have less.
var frameRecords = 64

// frameBytes is how many bytes the records of a frame have at most. A single record that is
// longer stays where it is.
const frameBytes = 1 << 20

// plannedFrame is the planned state of a row of the table packed_records.
type plannedFrame struct {
	first, last int64
	data        []byte
}

const (
	// framedUntil is the last commit whose record is in a frame.
	framedUntil = `SELECT last FROM packed_records WHERE store = ? ORDER BY seq DESC LIMIT 1`

	insertFrame = `INSERT INTO packed_records (store, seq, last, data) VALUES (?, ?, ?, ?)`

	// emptyRecords moves the rows behind all others: SQLite joins pages when rows leave them,
	// not when rows become shorter.
	emptyRecords = `UPDATE commits SET rowid = (SELECT max(rowid) FROM commits) + 1 + seq - ?2, record = x'' WHERE store = ?1 AND seq BETWEEN ?2 AND ?3`
)

// recordsToFrame reads records above a commit that are not in frames.
func recordsToFrame(limit int) string {
	return fmt.Sprintf(`SELECT seq, record FROM commits WHERE store = ? AND seq > ? AND length(record) BETWEEN 1 AND %d ORDER BY seq LIMIT %d`, frameBytes, limit)
}

// framedIn returns the last commit of a store whose record is in a frame.
func framedIn(ctx context.Context, from source, store int64) (int64, error) {
	last, err := queryOne(ctx, from, framedUntil, scanMicros, store)
	if errors.Is(err, versionlog.ErrNotFound) {
		return 0, nil
	}
	return last, err
}

// frame plans a frame of records, if enough of them are left. A slice has one: to empty its records
// takes as long as to pack thirty contents.
func (p *planner) frame(ctx context.Context) error {
	after := p.next.from.framed
	if p.next.tip-after < int64(frameRecords) {
		return nil
	}
	rows, err := queryAll(ctx, p.source, recordsToFrame(frameRecords), scanRecordRow, p.store, after)
	if err != nil {
		return err
	}
	run := firstRun(rows)
	if len(run) == 0 {
		return nil
	}
	lines := make([][]byte, len(run))
	for i := range run {
		lines[i] = run[i].record
	}
	frame, err := p.codec.compress(bytes.Join(lines, []byte{'\n'}), nil)
	if err != nil {
		return err
	}
	p.next.frame = &plannedFrame{run[0].seq, run[len(run)-1].seq, frame}
	return nil
}

// firstRun returns the first rows whose commits follow one another and whose records can be read.
// A damaged record stays where it is, so that no other record suffers from it.
func firstRun(rows []recordRow) (run []recordRow) {
	length := 0
	for _, row := range rows {
		if len(run) > 0 && (row.seq != run[len(run)-1].seq+1 || length+len(row.record) > frameBytes) {
			break
		}
		if !row.fits() {
			if len(run) > 0 {
				break
			}
			continue
		}
		run = append(run, row)
		length += len(row.record)
	}
	return run
}

// fits reports whether the record can be read, and be a line.
func (r recordRow) fits() bool {
	_, err := r.decode()
	return err == nil && !bytes.ContainsRune(r.record, '\n')
}

// putFrame writes a frame, and empties the records that it has.
func (w *writer) putFrame(store int64, f *plannedFrame) error {
	if err := w.run(insertFrame, store, f.first, f.last, f.data); err != nil {
		return err
	}
	return w.run(emptyRecords, store, f.first, f.last)
}
