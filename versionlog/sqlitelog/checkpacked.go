package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mneme/cas"
	"mneme/finding"
	"mneme/internal/sqlite"
)

const (
	// strayFrames are frames of commits that have records themselves, or are not there.
	strayFrames = `SELECT 'packed_records', r.seq FROM packed_records r WHERE r.store = ?1 AND (r.last < r.seq OR r.last - r.seq + 1 <>
			(SELECT count(*) FROM commits c WHERE c.store = ?1 AND c.seq BETWEEN r.seq AND r.last AND length(c.record) = 0))`

	frameRows = `SELECT seq, last, data FROM packed_records WHERE store = ? ORDER BY seq`

	// wrongPlaces are contents whose place is in no tree.
	wrongPlaces = `SELECT sha256 FROM packed WHERE store = ?1 AND length(sha256) = 32 AND (place < 0 OR place >= ?2)`

	// wrongProgress is packing that continues past the end of the history.
	wrongProgress = `SELECT p.seq FROM packing p JOIN stores s ON s.num = p.store
		WHERE p.store = ? AND (p.seq < 0 OR p.seq > s.tip_seq + 1 OR p.ord < 0 OR p.gone < 0)`

	// wrongLeft are files to be removed whose contents are nowhere else, and that a version has.
	wrongLeft = `SELECT lower(hex(f.sha256)) FROM files_left f WHERE f.store = ?1 AND NOT EXISTS (SELECT 1 FROM packed p WHERE p.store = ?1
			AND substr(p.sha256, 1, 8) = substr(f.sha256, 1, 8) AND p.sha256 = f.sha256 AND p.data IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.store = ?1 AND b.sha256 = f.sha256)
		AND EXISTS (SELECT 1 FROM versions v WHERE v.store = ?1 AND v.sha256 IS NOT NULL
			AND substr(v.sha256, 1, 8) = substr(f.sha256, 1, 8) AND v.sha256 = f.sha256)`

	// frames are packed contents, and whether they are whole in the database, too.
	framesAfter = `SELECT p.id, p.sha256, EXISTS (SELECT 1 FROM blobs b WHERE b.store = p.store AND b.sha256 = p.sha256)
		FROM packed p WHERE p.store = ? AND p.id > ? AND p.data IS NOT NULL AND length(p.sha256) = 32 ORDER BY p.id LIMIT 500`
)

// packed compares what packing has made of records and contents.
func (c *checker) packed(ctx context.Context) error {
	if _, ok, err := c.log.Blobs(c.store.ID).ready(ctx, packedFormat); err != nil || !ok {
		return err
	}
	for _, step := range []func(context.Context) error{c.recordFrames, c.packingRows, c.listFiles, c.contentFrames, c.contentFiles} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recordFrames compares the frames of records with the commits that have none.
func (c *checker) recordFrames(ctx context.Context) error {
	found, err := queryAll(ctx, c.log.db, strayFrames, scanStray, c.store.num)
	if err != nil {
		return err
	}
	for _, s := range found {
		c.differs(finding.RecordFrame, s.table, s.seq, "it is not of just those commits that have no record of their own")
	}
	type frame struct {
		seq  int64
		more bool // or less
	}
	decoder := &codec{}
	frames, err := queryAll(ctx, c.log.db, frameRows, func(row *sqlite.Row) (frame, error) {
		f, err := decoder.scanFrame(row)
		if isUnreadable(err) { // as package memory reports
			return frame{}, nil
		}
		return frame{f.first, int64(len(f.lines)) != row.ColumnInt64(1)-f.first+1}, err
	}, c.store.num)
	for _, f := range frames {
		if f.more {
			c.differs(finding.RecordFrame, "packed_records", f.seq, "it has not as many records as it says")
		}
	}
	return err
}

// packingRows looks for places that are none, and for progress that is behind the history.
func (c *checker) packingRows(ctx context.Context) error {
	places, err := queryAll(ctx, c.log.db, wrongPlaces, scanDigest, c.store.num, int64(treeSize))
	for _, d := range places {
		c.report(Problem{finding.PackedPlace, "row packed " + d.String(), "its place is in no tree", doRestore})
	}
	if err != nil {
		return err
	}
	progress, err := queryAll(ctx, c.log.db, wrongProgress, scanMicros, c.store.num)
	for _, seq := range progress {
		c.differs(finding.PackedProgress, "packing", seq, "it is outside the history")
	}
	if err != nil {
		return err
	}
	left, err := queryAll(ctx, c.log.db, wrongLeft, func(row *sqlite.Row) (string, error) { return row.ColumnText(0), nil }, c.store.num)
	for _, name := range left {
		c.report(Problem{finding.FileLeft, "row files_left " + name, "the content of that file is nowhere else", doRestore})
	}
	return err
}

// contentFrames decodes the contents that are packed and are not read when the versions
// are verified: those that are whole as well, and those of no version. Others may lean on
// them.
func (c *checker) contentFrames(ctx context.Context) error {
	type frame struct {
		id     int64
		digest cas.Digest
		whole  bool
	}
	rows := paged(500, func(last *frame, room []frame) ([]frame, error) {
		after := int64(0)
		if last != nil {
			after = last.id
		}
		return queryInto(ctx, room, c.log.db, framesAfter, func(row *sqlite.Row) (frame, error) {
			d, err := digestIn(row, 1)
			return frame{row.ColumnInt64(0), d, row.ColumnInt64(2) != 0}, err
		}, c.store.num, after)
	})
	for f, err := range rows {
		if err != nil {
			return err
		}
		_, needed := c.digests[f.digest]
		if _, inFile := c.inFiles[f.digest]; needed && !f.whole && !inFile {
			continue
		}
		if err := c.contentFrame(ctx, f.id); err != nil {
			return err
		}
	}
	return nil
}

// contentFrame decodes one.
func (c *checker) contentFrame(ctx context.Context, id int64) error {
	var row *packed
	err := retryBusy(ctx, func() error {
		return translate(c.log.reading(ctx, func(from source) (err error) {
			in := &contents{source: from, store: c.store.num, files: c.files}
			if row, err = in.rowByID(ctx, id); err == nil && row != nil && row.frame != nil {
				_, err = in.decode(ctx, row, false)
			}
			return err
		}))
	})
	if row != nil && isDamage(err) {
		c.report(Problem{finding.PackedContent, "row packed " + row.digest.String(), fmt.Sprintf("it does not decode to its content, and others may be kept against it: %v", err), doRestore})
		return nil
	}
	return err
}

// listFiles lists the contents in files once. Asking about each content costs several opened
// directories.
func (c *checker) listFiles(ctx context.Context) (err error) {
	if c.files, err = c.log.filesOf(c.store.ID); err != nil || c.files == nil {
		return err
	}
	c.inFiles = map[cas.Digest]struct{}{}
	for d, err := range c.files.List(ctx) {
		if err != nil {
			return err
		}
		c.inFiles[d] = struct{}{}
	}
	return nil
}

// contentFiles verifies the contents in files that are not read with the versions: those
// that the database has as well, and those of no version.
func (c *checker) contentFiles(ctx context.Context) error {
	blobs := c.log.Blobs(c.store.ID)
	for _, d := range slices.SortedFunc(maps.Keys(c.inFiles), func(a, b cas.Digest) int { return bytes.Compare(a[:], b[:]) }) {
		if _, needed := c.digests[d]; needed {
			if elsewhere, err := blobs.Has(ctx, d); err != nil || !elsewhere {
				if err != nil {
					return err
				}
				continue
			}
		}
		if _, err := c.files.Get(ctx, d); errors.Is(err, cas.ErrCorrupt) {
			c.report(Problem{finding.FileUnneeded, "file " + d.String(), "its bytes are damaged; no version needs them, or the database has them, too", "remove it from the directory of the store's blobs"})
		} else if err != nil && !errors.Is(err, cas.ErrNotFound) {
			return err
		}
	}
	return nil
}
