package sqlitelog

import (
	"context"
	"errors"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// How much one slice of packing looks at and changes: the writers of all processes
// wait while it is applied, and its contents are in memory while it is planned.
const (
	sliceBytes    = 512 << 10 // of contents that are packed, except the last one
	sliceContents = 32
	sliceVersions = 500
)

// leastPacked is the size in bytes from which a content is packed: the row and its place
// in the index take as much as a smaller one.
const leastPacked = 128

// cursor says how far the history of a store is packed: the version from which packing continues.
type cursor struct{ seq, ord int64 }

// progress is how far a store is packed, and how often contents were removed for good or
// versions erased, none of which a slice planned before may bring back.
type progress struct {
	cursor
	removed int64
	framed  int64 // the last commit whose record is in a frame
}

// slice is what one step of packing changes in a store. It is planned in a transaction
// that reads, while others write, and applied by a short one that writes, if the cursor
// has not moved and no content that it takes away has become a head's.
type slice struct {
	store int64
	from  progress // as it was found
	to    cursor
	tip   int64         // of the store as it was planned
	rows  []*plannedRow // in an order in which each base comes before those that lean on it
	gone  []cas.Digest  // contents that are whole no more
	files []cas.Digest  // those of them that files have
	whole [][]byte      // contents to be made whole again

	frame *plannedFrame // of records; nil: none
}

// empty reports whether there is nothing to do but to move the cursor.
func (s *slice) empty() bool { return len(s.rows)+len(s.gone)+len(s.whole) == 0 && s.frame == nil }

// plannedRow is the planned state of a row of the table packed.
type plannedRow struct {
	digest cas.Digest
	base   cas.Digest // zero: none
	place  place
	frame  []byte // nil: a mark
}

// replacement is a version, and the content that it replaced.
type replacement struct {
	at       cursor
	memoryID string
	parent   string
	digest   cas.Digest // of the version itself
}

// planner plans one slice within a transaction.
type planner struct {
	contents
	next    slice
	planned map[cas.Digest]*plannedRow
	data    map[cas.Digest][]byte // of planned rows, and of bases
	packed  int64                 // bytes
}

const (
	progressOf = `SELECT seq, ord, gone FROM packing WHERE store = ?`

	// versionsFrom reads the versions from one on, up to a sequence number.
	versionsFrom = `SELECT seq, ord, memory_id, parent, sha256 FROM versions
		WHERE store = ? AND (seq, ord) >= (?, ?) AND seq <= ? ORDER BY seq, ord LIMIT 500`

	contentAt = `SELECT sha256, size FROM versions WHERE store = ? AND seq = ? AND ord = ?`

	// The statements below name their index: SQLite would rather read all versions of the store,
	// since those are in the order that is asked for.

	// contentBefore reads the last other content of a memory before a version.
	contentBefore = `SELECT sha256 FROM versions INDEXED BY versions_memory WHERE store = ? AND memory_id = ? AND seq < ? AND sha256 IS NOT NULL AND sha256 <> ?
		ORDER BY seq DESC LIMIT 1`

	headOf = `SELECT sha256 FROM versions INDEXED BY versions_memory WHERE store = ? AND memory_id = ? ORDER BY seq DESC LIMIT 1`

	// headsWith finds a head of a content among its newest versions above a sequence
	// number. A content that has more of them counts as a head's.
	headsWith = `WITH v AS (SELECT path, seq, ord, sha256 FROM versions INDEXED BY versions_content
			WHERE store = ?1 AND sha256 IS NOT NULL AND substr(sha256, 1, 8) = substr(?2, 1, 8) AND seq > ?3 ORDER BY seq DESC LIMIT 1001)
		SELECT 1 WHERE EXISTS (SELECT 1 FROM v CROSS JOIN paths p ON p.store = ?1 AND p.path = v.path AND p.seq = v.seq AND p.ord = v.ord
			WHERE p.live = 1 AND v.sha256 = ?2) OR (SELECT count(*) FROM v) > 1000`
)

// plan returns the next slice of a store, from a cursor on that may be ahead of the one
// in the database.
func plan(ctx context.Context, from source, store int64, files Files, ahead cursor) (*slice, error) {
	p := &planner{
		contents: contents{source: from, store: store, files: files},
		next:     slice{store: store},
		planned:  map[cas.Digest]*plannedRow{}, data: map[cas.Digest][]byte{},
	}
	var err error
	if p.next.from, err = progressIn(ctx, from, store); err != nil {
		return nil, err
	}
	p.next.to = p.next.from.cursor
	if p.next.to.before(ahead) {
		p.next.to = ahead
	}
	if p.next.tip, err = queryOne(ctx, from, `SELECT tip_seq FROM stores WHERE num = ?`, scanMicros, store); err != nil {
		return nil, err
	}
	if err := p.frame(ctx); err != nil {
		return nil, err
	}
	versions, err := queryAll(ctx, from, versionsFrom, scanReplacement, store, p.next.to.seq, p.next.to.ord, p.next.tip)
	if err != nil {
		return nil, err
	}
	for i := range versions {
		v := &versions[i]
		if p.packed >= sliceBytes || len(p.next.gone) >= sliceContents {
			p.next.to = v.at
			return &p.next, nil
		}
		if err := p.version(ctx, v); err != nil {
			return nil, err
		}
		p.next.to = cursor{v.at.seq, v.at.ord + 1}
	}
	if len(versions) < sliceVersions {
		p.next.to = cursor{p.next.tip + 1, 0}
	}
	return &p.next, nil
}

func (c cursor) before(other cursor) bool {
	return c.seq < other.seq || c.seq == other.seq && c.ord < other.ord
}

// progressIn returns how far a store is packed.
func progressIn(ctx context.Context, from source, store int64) (progress, error) {
	p, err := queryOne(ctx, from, progressOf, func(row *sqlite.Row) (progress, error) {
		return progress{cursor: cursor{row.ColumnInt64(0), row.ColumnInt64(1)}, removed: row.ColumnInt64(2)}, nil
	}, store)
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) { // without a row no content is packed
		return p, err
	}
	p.framed, err = framedIn(ctx, from, store)
	return p, err
}

func scanReplacement(row *sqlite.Row) (replacement, error) {
	r := replacement{at: cursor{row.ColumnInt64(0), row.ColumnInt64(1)}, memoryID: row.ColumnText(2), parent: row.ColumnText(3)}
	var err error
	r.digest, err = digestIn(row, 4)
	return r, err
}

// version plans what follows from a version: what it has replaced is packed, and what
// it has itself is whole.
func (p *planner) version(ctx context.Context, v *replacement) error {
	if !v.digest.IsZero() {
		if err := p.makeWhole(ctx, v.digest); err != nil {
			return err
		}
	}
	seq, ord, err := versionlog.LocateVersion(v.parent)
	if err != nil { // it has none
		return nil
	}
	type content struct {
		digest cas.Digest
		size   int64
	}
	old, err := queryOne(ctx, p.source, contentAt, func(row *sqlite.Row) (content, error) {
		d, err := digestIn(row, 0)
		return content{d, row.ColumnInt64(1)}, err
	}, p.store, int64(seq), int64(ord))
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil
	}
	if err != nil || old.digest.IsZero() || old.digest == v.digest || old.size < leastPacked || old.size > maxPacked {
		return err
	}
	if isHead, err := p.isHead(ctx, old.digest, 0); err != nil || isHead {
		return err
	}
	return p.pack(ctx, old.digest, v.memoryID, int64(seq))
}

// isHead reports whether a content is that of a head that came after a commit.
func (c *contents) isHead(ctx context.Context, d cas.Digest, after int64) (bool, error) {
	return exists(queryOne(ctx, c.source, headsWith, scanMicros, c.store, d[:], after))
}

// makeWhole plans that a head's content is whole, if it is only packed.
func (p *planner) makeWhole(ctx context.Context, d cas.Digest) error {
	row, err := p.contents.row(ctx, d)
	if err != nil || row == nil || row.frame == nil {
		return err
	}
	if isHead, err := p.isHead(ctx, d, 0); err != nil || !isHead {
		return err
	}
	_, _, err = p.contents.whole(ctx, d)
	if err == nil || !isDamage(err) {
		return err
	}
	data, err := p.unpack(ctx, row)
	if err == nil {
		p.next.whole = append(p.next.whole, data)
		p.packed += int64(len(data))
	}
	return onlyOther(err)
}

// onlyOther drops an error that says that bytes are damaged or missing: the code that verifies
// them says so, and they are left as they are.
func onlyOther(err error) error {
	if isDamage(err) {
		return nil
	}
	return err
}

// row returns the row of a content as it is planned, or is; nil where there is none.
func (p *planner) row(ctx context.Context, d cas.Digest) (*plannedRow, error) {
	if row := p.planned[d]; row != nil {
		return row, nil
	}
	row, err := p.contents.row(ctx, d)
	if err != nil || row == nil {
		return nil, err
	}
	return p.asPlanned(ctx, row)
}

func (p *planner) asPlanned(ctx context.Context, row *packed) (*plannedRow, error) {
	as := &plannedRow{digest: row.digest, place: row.place, frame: row.frame}
	if row.base != 0 {
		base, err := p.rowByID(ctx, row.base)
		if err != nil {
			return nil, err
		}
		if base != nil { // otherwise it decodes to nothing
			as.base = base.digest
		}
	}
	return as, nil
}

// get returns the bytes of a content, packed or whole. It looks for packed bytes first: to find
// that a content has no file takes far longer.
func (p *planner) get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if data, ok := p.data[d]; ok {
		return data, nil
	}
	row, err := p.contents.row(ctx, d)
	if err != nil {
		return nil, err
	}
	var data []byte
	if row != nil && row.frame != nil {
		data, err = p.unpack(ctx, row)
	}
	if row == nil || row.frame == nil || isDamage(err) {
		data, _, err = p.contents.whole(ctx, d)
	}
	if err == nil && len(data) <= sliceBytes {
		p.data[d] = data
	}
	return data, err
}

// put plans a row, and first the mark that it leans on, if it does.
func (p *planner) put(row, head *plannedRow) {
	if head != nil && row.base == head.digest && p.planned[head.digest] == nil {
		p.put(head, nil)
	}
	p.planned[row.digest] = row
	p.next.rows = append(p.next.rows, row)
}

// pack plans that a content is packed that a memory had at a commit.
func (p *planner) pack(ctx context.Context, d cas.Digest, memoryID string, seq int64) error {
	data, inFile, err := p.contents.whole(ctx, d)
	if err != nil || len(data) > maxPacked { // whatever its version says
		return onlyOther(err)
	}
	row, err := p.row(ctx, d)
	if err != nil {
		return err
	}
	head, err := p.headFor(ctx, memoryID, d)
	if err != nil {
		return err
	}
	if row == nil || row.frame == nil {
		as, err := p.encode(ctx, d, data, memoryID, seq, head)
		if err != nil {
			return onlyOther(err)
		}
		if len(as.frame) > len(data)-len(data)/8 {
			return nil
		}
		if row != nil {
			if err := p.leanElsewhere(ctx, d, head); err != nil {
				return onlyOther(err)
			}
		}
		p.put(as, head)
	} else if same, err := p.decodes(ctx, d, row); err != nil || !same {
		return err // a damaged one keeps its whole copy
	}
	if len(data) <= sliceBytes {
		p.data[d] = data
	}
	p.packed += int64(len(data))
	p.next.gone = append(p.next.gone, d)
	if inFile {
		p.next.files = append(p.next.files, d)
	}
	return nil
}

// decodes reports whether a row that is there yields its content.
func (p *planner) decodes(ctx context.Context, d cas.Digest, row *plannedRow) (bool, error) {
	if p.planned[d] != nil {
		return true, nil
	}
	found, err := p.contents.row(ctx, row.digest)
	if err != nil || found == nil {
		return false, err
	}
	_, err = p.contents.decode(ctx, found, false)
	return err == nil, onlyOther(err)
}

// encode returns the row of a content, encoded against its base by place or, for a root, against
// the head, or alone.
func (p *planner) encode(ctx context.Context, d cas.Digest, data []byte, memoryID string, seq int64, head *plannedRow) (*plannedRow, error) {
	before, err := queryOne(ctx, p.source, contentBefore, scanDigest, p.store, memoryID, seq, d[:])
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
		return nil, err
	}
	var base *plannedRow
	at := place(0)
	if err == nil {
		if base, at, err = p.baseAfter(ctx, before); err != nil {
			return nil, err
		}
	}
	if base == nil {
		base, at = head, 0
	}
	row, err := p.against(ctx, &plannedRow{digest: d, place: at}, data, base)
	if err == nil && row.base.IsZero() {
		row.place = 0
	}
	return row, err
}

// against gives a row the smaller one of two frames.
func (p *planner) against(ctx context.Context, row *plannedRow, data []byte, base *plannedRow) (*plannedRow, error) {
	if base != nil {
		against, err := p.get(ctx, base.digest)
		if err != nil && !isDamage(err) {
			return nil, err
		}
		if err == nil {
			if row.frame, err = p.codec.compress(data, against); err != nil {
				return nil, err
			}
			row.base = base.digest
		}
	}
	if row.frame != nil && len(row.frame) <= len(data)/4 {
		return row, nil
	}
	alone, err := p.codec.compress(data, nil)
	if err != nil {
		return nil, err
	}
	if row.frame == nil || len(alone) <= len(row.frame) {
		row.frame, row.base = alone, cas.Digest{}
	}
	return row, nil
}

// baseAfter returns the row that the version after a content leans on, and its place;
// nil where it begins a tree.
func (p *planner) baseAfter(ctx context.Context, before cas.Digest) (*plannedRow, place, error) {
	row, err := p.row(ctx, before)
	if err != nil || row == nil || row.frame == nil || row.place+1 >= treeSize {
		return nil, 0, err
	}
	at := row.place + 1
	for row.place > at.base() && !row.base.IsZero() {
		above := row.place
		if row, err = p.row(ctx, row.base); err != nil || row == nil || row.place >= above { // damaged
			return nil, 0, err
		}
	}
	if row.place != at.base() || row.frame == nil {
		return nil, 0, nil
	}
	return row, at, nil
}

// headFor returns the mark of the head's content of a memory, for a root to lean on; nil
// where there is none to be had.
func (p *planner) headFor(ctx context.Context, memoryID string, d cas.Digest) (*plannedRow, error) {
	head, err := queryOne(ctx, p.source, headOf, scanDigest, p.store, memoryID)
	if errors.Is(err, versionlog.ErrNotFound) || err == nil && (head.IsZero() || head == d) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, err := p.row(ctx, head)
	if err != nil || row != nil && row.frame != nil {
		return nil, err
	}
	if row == nil {
		row = &plannedRow{digest: head}
	} else if leaning, err := queryOne(ctx, p.source, leaningOn, scanMicros, p.store, head[:]); err != nil || leaning >= maxLeaning {
		return nil, err
	}
	data, _, err := p.contents.whole(ctx, head)
	if err != nil || len(data) > maxPacked {
		return nil, onlyOther(err)
	}
	p.data[head] = data
	return row, nil
}

const leaningOn = `SELECT count(*) FROM packed l WHERE l.base = (SELECT id FROM packed
	WHERE store = ?1 AND substr(sha256, 1, 8) = substr(?2, 1, 8) AND sha256 = ?2)`

// leanElsewhere plans that the roots that lean on a content lean on a head, or on none.
func (p *planner) leanElsewhere(ctx context.Context, d cas.Digest, head *plannedRow) error {
	mark, err := p.contents.row(ctx, d)
	if err != nil || mark == nil {
		return err
	}
	roots, err := queryAll(ctx, p.source, packedOn, scanPacked, mark.id)
	if err != nil {
		return err
	}
	for i := range roots {
		if now := p.planned[roots[i].digest]; now != nil && now.base != d {
			continue
		}
		data, err := p.get(ctx, roots[i].digest)
		if err != nil {
			return err
		}
		row, err := p.against(ctx, &plannedRow{digest: roots[i].digest, place: roots[i].place}, data, head)
		if err != nil {
			return err
		}
		p.put(row, head)
	}
	return nil
}
