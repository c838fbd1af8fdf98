package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// recordRow is what a row of the table commits has as its record: nothing where the
// record is in a frame.
type recordRow struct {
	seq    int64
	record []byte
}

func scanRecordRow(row *sqlite.Row) (recordRow, error) {
	return recordRow{row.ColumnInt64(0), row.ColumnBlob(1, nil)}, nil
}

// decode returns the commit of a row that has its record. versionlog.ErrCorrupt, also
// where the record is another commit's; versionlog.ErrFormat.
func (r recordRow) decode() (*versionlog.Commit, error) {
	c, err := versionlog.DecodeRecord(r.record)
	if err == nil && int64(c.Seq) != r.seq {
		return nil, fmt.Errorf("commit record %d: %w: it is that of commit %d", r.seq, versionlog.ErrCorrupt, c.Seq)
	}
	return c, err
}

// frameOf finds the frame that the record of a commit is in. Records go into frames and
// never come back, so a row and its frame may be read in two transactions.
const frameOf = `SELECT seq, last, data FROM packed_records WHERE store = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`

// framesTable finds the table of frames, which logs of earlier formats do not have.
const framesTable = `SELECT 1 FROM sqlite_schema WHERE name = 'packed_records'`

// records reads records of one store, the frames of those that are packed as well. It
// keeps the frame that it read last, for the next of those that follow one another.
type records struct {
	source source
	store  int64
	frame  recordFrame
	codec  codec
}

// recordFrame are the records of commits that follow one another.
type recordFrame struct {
	first int64
	lines [][]byte
}

// all returns the commits of the rows that a query finds, whose columns are those of
// recordRow; with an error, those before it. The room for them is used.
func (r *records) all(ctx context.Context, room []*versionlog.Commit, text string, args ...any) ([]*versionlog.Commit, error) {
	rows, err := queryAll(ctx, r.source, text, scanRecordRow, args...)
	found := room[:0]
	for i := range rows {
		c, decodeErr := r.commit(ctx, rows[i])
		if decodeErr != nil {
			return found, decodeErr
		}
		rows[i].record = nil // they may be long
		found = append(found, c)
	}
	return found, err
}

// one returns the commit of the row that a query finds. versionlog.ErrNotFound.
func (r *records) one(ctx context.Context, text string, args ...any) (*versionlog.Commit, error) {
	row, err := queryOne(ctx, r.source, text, scanRecordRow, args...)
	if err != nil {
		return nil, err
	}
	return r.commit(ctx, row)
}

// commit decodes the record of a row. versionlog.ErrCorrupt, versionlog.ErrFormat.
func (r *records) commit(ctx context.Context, row recordRow) (*versionlog.Commit, error) {
	if len(row.record) == 0 {
		var err error
		if row.record, err = r.packed(ctx, row.seq); err != nil {
			return nil, err
		}
	}
	return row.decode()
}

// isUnreadable reports whether an error of commit is about the record, which is damaged,
// missing or a newer mneme's, and not about reading the database.
func isUnreadable(err error) bool {
	return errors.Is(err, versionlog.ErrCorrupt) || errors.Is(err, versionlog.ErrFormat)
}

// packed returns the record of a commit that is in a frame. versionlog.ErrCorrupt.
func (r *records) packed(ctx context.Context, seq int64) ([]byte, error) {
	if record := r.frame.at(seq); record != nil {
		return record, nil
	}
	frame, err := queryOne(ctx, r.source, frameOf, r.codec.scanFrame, r.store, seq)
	if errors.Is(err, versionlog.ErrNotFound) || err != nil && r.hasNoFrames(ctx) {
		return nil, fmt.Errorf("commit record %d: %w: it is empty, and in no frame", seq, versionlog.ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	r.frame = frame
	if record := r.frame.at(seq); record != nil {
		return record, nil
	}
	return nil, fmt.Errorf("commit record %d: %w: it is empty, and not in the frame of %d", seq, versionlog.ErrCorrupt, frame.first)
}

// hasNoFrames reports whether the log is of an earlier format. Another process may bring
// it to this one at any time, so it is looked at, and only where a frame cannot be read.
func (r *records) hasNoFrames(ctx context.Context) bool {
	there, err := exists(queryOne(ctx, r.source, framesTable, scanMicros))
	return err == nil && !there
}

func (c *codec) scanFrame(row *sqlite.Row) (recordFrame, error) {
	f := recordFrame{first: row.ColumnInt64(0)}
	data, err := c.decompress(row.ColumnRawBlob(2), nil)
	if isDamage(err) { // the same error for all of them, so that fsck reports them together
		return f, fmt.Errorf("%w: the frame with the records of commits %d to %d does not decode", versionlog.ErrCorrupt, f.first, row.ColumnInt64(1))
	}
	if err != nil {
		return f, err
	}
	f.lines = bytes.Split(data, []byte{'\n'})
	return f, nil
}

// at returns the record of a commit; nil where the frame has none.
func (f *recordFrame) at(seq int64) []byte {
	if seq < f.first || seq-f.first >= int64(len(f.lines)) {
		return nil
	}
	return f.lines[seq-f.first]
}
