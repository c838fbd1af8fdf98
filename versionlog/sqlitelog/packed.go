package sqlitelog

import (
	"context"
	"errors"
	"fmt"

	"mneme/cas"
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// Files are the contents of a store that are not in the database, since they are
// larger than MaxContent.
type Files interface {
	cas.Store
	cas.Lister
	cas.Deleter
}

// A packed is a content of the past as the table packed has it: a frame of zstd, with the bytes
// of another content, its base, as the dictionary, where that is smaller. The versions of a
// memory make a tree: the root leans on the memory's head, every other one on an earlier version.
// That costs one frame more when a new head comes, that of the root. Chains from each version to
// the next one, as git has them, would grow at their end with each head, and all of them would
// have to be encoded again.
//
// These hold after every transaction:
//
//  1. Heads are whole. A content is whole when its bytes are in the table blobs, or in a file, as
//     they are; a reader looks there first. A commit writes its contents whole and need not look
//     at packed. A content that is removed there is no head's, by the transaction's own look.
//     Where bytes that are packed become a head's without coming with the commit, packing makes
//     them whole.
//  2. A content that is packed stays packed, also while it is whole again: others
//     may lean on it.
//  3. A base is a row, too. The row of a whole content is a mark, without a frame. A mark gets a
//     frame only when no row leans on it any longer.
//  4. Chains end. A row leans on one with a lower place in its tree, or the root on
//     a mark. See place: no content takes more than maxChain frames.
//  5. A frame is in the database once it was decoded to the bytes it stands for, and
//     only the same transaction removes them from blobs. A file goes when that is
//     durable.
type packed struct {
	id     int64
	digest cas.Digest
	base   int64 // 0 is none
	place  place
	frame  []byte // nil is a mark
}

// place is a position in a tree, in the order of the history. A content leans on the
// one whose position has the last digit other than 0 one lower, in base placeBase: of
// 1, 2 and 3 on the one before, of 8 on 4, of 48 on 32. So a chain is as long as the sum
// of the digits, and what leans on something far away is rare.
type place int64

const (
	placeBase = 4
	treeSize  = placeBase * placeBase * placeBase * placeBase * placeBase // digits of at most 15 in sum

	// maxChain is how many frames are decoded at most for one content: those of a tree,
	// whose root leans on a head.
	maxChain = 16

	// maxLeaning is how many roots lean on one mark: they are encoded again together.
	maxLeaning = 16
)

// base returns the place that p leans on, for all but the root.
func (p place) base() place {
	step := place(1)
	for p%(step*placeBase) == 0 {
		step *= placeBase
	}
	return p - step
}

const (
	packedColumns = `SELECT id, sha256, coalesce(base, 0), place, data FROM packed `
	packedAt      = packedColumns + `WHERE store = ?1 AND substr(sha256, 1, 8) = substr(?2, 1, 8) AND sha256 = ?2`
	packedByID    = packedColumns + `WHERE id = ?`
	packedOn      = packedColumns + `WHERE base = ?`
	packedThere   = `SELECT sha256 FROM packed WHERE store = ?1 AND substr(sha256, 1, 8) = substr(?2, 1, 8) AND sha256 = ?2 AND data IS NOT NULL`
)

func scanPacked(row *sqlite.Row) (packed, error) {
	p := packed{id: row.ColumnInt64(0), base: row.ColumnInt64(2), place: place(row.ColumnInt64(3)), frame: row.ColumnBlob(4, nil)}
	var err error
	p.digest, err = digestIn(row, 1)
	if p.frame == nil && !sqlite.IsNull(row, 4) {
		p.frame = []byte{}
	}
	return p, err
}

// contents reads the contents of a store within a transaction.
type contents struct {
	source source // of the transaction
	store  int64
	files  Files // nil: there are none
	codec  codec

	decoded      map[int64][]byte // what together has decoded, by row
	decodedBytes int              // of it
}

// whole returns the bytes of a content that is whole, and whether a file has them.
// cas.ErrNotFound, cas.ErrCorrupt.
func (c *contents) whole(ctx context.Context, d cas.Digest) (data []byte, inFile bool, err error) {
	data, err = queryOne(ctx, c.source, blobData, scanBytes, c.store, d[:])
	if err == nil && cas.Sum(data) == d {
		return data, false, nil
	}
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
		return nil, false, err
	}
	missing := cas.ErrCorrupt
	if err != nil {
		missing = cas.ErrNotFound
	}
	if c.files == nil {
		return nil, false, missing
	}
	data, err = c.files.Get(ctx, d)
	if errors.Is(err, cas.ErrNotFound) {
		err = missing
	}
	return data, err == nil, err
}

func isDamage(err error) bool {
	return errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt)
}

// row returns the row of a content, nil where there is none.
func (c *contents) row(ctx context.Context, d cas.Digest) (*packed, error) {
	return c.one(ctx, packedAt, c.store, d[:])
}

func (c *contents) rowByID(ctx context.Context, id int64) (*packed, error) {
	return c.one(ctx, packedByID, id)
}

func (c *contents) one(ctx context.Context, text string, args ...any) (*packed, error) {
	p, err := queryOne(ctx, c.source, text, scanPacked, args...)
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil, nil
	}
	return &p, err
}

// unpack returns the bytes of a row with a frame. cas.ErrCorrupt.
func (c *contents) unpack(ctx context.Context, p *packed) ([]byte, error) {
	data, err := c.decode(ctx, p, false)
	if errors.Is(err, cas.ErrCorrupt) {
		// Another call may have put back a content on which one of them leans.
		data, err = c.decode(ctx, p, true)
	}
	return data, err
}

// decode decodes a chain of frames; with mended, it begins with the first content that
// is whole.
func (c *contents) decode(ctx context.Context, p *packed, mended bool) ([]byte, error) {
	var chain []*packed
	var data []byte
	var err error
	for link := p; ; {
		if link.frame == nil || mended && link != p {
			data, _, err = c.whole(ctx, link.digest)
			if err == nil {
				break
			}
			if link.frame == nil {
				if isDamage(err) {
					err = &cas.NeedsError{Blob: link.digest, Err: err}
				}
				return nil, err
			}
		}
		if chain = append(chain, link); len(chain) > maxChain {
			return nil, fmt.Errorf("%w: it is kept against more than %d others", cas.ErrCorrupt, maxChain)
		}
		if link.base == 0 {
			data = nil
			break
		}
		base := link.base
		if link, err = c.rowByID(ctx, base); err != nil {
			return nil, err
		}
		if link == nil {
			return nil, fmt.Errorf("%w: it is kept against row %d, which is not there", cas.ErrCorrupt, base)
		}
	}
	if len(chain) == 0 { // p itself is whole
		return data, nil
	}
	return c.decompressChain(chain, data)
}

// decodedTogether is how many bytes together keeps for contents that follow.
const decodedTogether = 8 << 20

// together returns the bytes of a content that is packed, and keeps what it leans on for the
// next one of a batch. cas.ErrNotFound, cas.ErrCorrupt; unpack says what is wrong, and may
// still succeed.
func (c *contents) together(ctx context.Context, d cas.Digest) ([]byte, error) {
	p, err := c.row(ctx, d)
	if err == nil && (p == nil || p.frame == nil) {
		err = cas.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return c.link(ctx, p, maxChain)
}

// link returns the bytes of a row that leans on at most so many others.
func (c *contents) link(ctx context.Context, p *packed, most int) (data []byte, err error) {
	if data, known := c.decoded[p.id]; known {
		return data, nil
	}
	switch {
	case p.frame == nil:
		data, _, err = c.whole(ctx, p.digest)
	case most == 0:
		err = cas.ErrCorrupt
	default:
		var base []byte
		if p.base != 0 {
			var on *packed
			if on, err = c.rowByID(ctx, p.base); err == nil && on == nil {
				err = cas.ErrCorrupt
			}
			if err == nil {
				base, err = c.link(ctx, on, most-1)
			}
		}
		if err == nil {
			data, err = c.codec.decompress(p.frame, base)
		}
	}
	if err == nil && cas.Sum(data) != p.digest {
		err = cas.ErrCorrupt
	}
	if err == nil && c.decodedBytes+len(data) <= decodedTogether {
		c.decoded[p.id] = data
		c.decodedBytes += len(data)
	}
	return data, err
}

// decompressChain decodes frames of which each leans on the one behind it, and the last
// one on base. cas.ErrCorrupt; a cas.NeedsError names the one behind that is damaged.
func (c *contents) decompressChain(chain []*packed, base []byte) ([]byte, error) {
	data, err := base, error(nil)
	for i := len(chain) - 1; i >= 0 && err == nil; i-- {
		data, err = c.codec.decompress(chain[i].frame, data)
	}
	if err == nil && cas.Sum(data) == chain[0].digest {
		return data, nil
	}
	data = base
	for i := len(chain) - 1; i > 0; i-- {
		if data, err = c.codec.decompress(chain[i].frame, data); err == nil && cas.Sum(data) != chain[i].digest {
			err = cas.ErrCorrupt
		}
		if err != nil {
			return nil, &cas.NeedsError{Blob: chain[i].digest, Err: err}
		}
	}
	return nil, cas.ErrCorrupt
}

// unpack returns the bytes of a content that is packed. cas.ErrNotFound, cas.ErrCorrupt.
func (b *Blobs) unpack(ctx context.Context, d cas.Digest) ([]byte, error) {
	num, ok, err := b.ready(ctx, packedFormat)
	if err == nil && !ok {
		err = cas.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	files, err := b.log.filesOf(b.storeID)
	if err != nil {
		return nil, err
	}
	var data []byte
	try := func() error {
		return b.log.reading(ctx, func(from source) error {
			c := &contents{source: from, store: num, files: files}
			p, err := c.row(ctx, d)
			if err == nil && (p == nil || p.frame == nil) {
				err = cas.ErrNotFound
			}
			if err == nil {
				data, err = c.unpack(ctx, p)
			}
			return err
		})
	}
	err = retryBusy(ctx, func() error { return translate(try()) })
	if errors.Is(err, cas.ErrCorrupt) {
		// A file that it leans on may have been packed and removed since the transaction
		// began.
		err = retryBusy(ctx, func() error { return translate(try()) })
	}
	return data, err
}

// filesOf returns the files of a store, nil where there are none.
func (l *Log) filesOf(storeID string) (Files, error) {
	if l.files == nil {
		return nil, nil
	}
	if known, ok := l.known.Load(storeID); ok {
		return known.(Files), nil
	}
	files, err := l.files(storeID)
	if err == nil {
		l.known.Store(storeID, files)
	}
	return files, err
}
