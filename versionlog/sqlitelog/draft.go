package sqlitelog

import (
	"context"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// draftFrom is how many changes a proposal has, at least, that is drafted first.
const draftFrom = 100

// draft is the commit that a proposal becomes in one state of its store. It is made
// while others write; only if the store is still in that state when the writer's turn
// comes, the draft is the commit, and all that is left to do then is to write it.
type draft struct {
	state  storeRow
	commit *versionlog.Commit
	record []byte
}

// draft returns nil for a proposal that is not worth it, or makes no commit: the
// writer says why.
func (l *Log) draft(ctx context.Context, storeID string, p *versionlog.Proposal) *draft {
	if len(p.Changes) < draftFrom {
		return nil
	}
	d := &draft{}
	err := l.reading(ctx, func(from source) (err error) {
		if d.state, err = queryOne(ctx, from, storeByID, scanStore, storeID); err != nil {
			return err
		}
		d.commit, d.record, err = l.build(ctx, from, &d.state, p)
		return err
	})
	if err != nil || !d.commit.Changes() {
		return nil
	}
	return d
}

// build returns what p becomes in a state of its store, with its record.
func (l *Log) build(ctx context.Context, from source, s *storeRow, p *versionlog.Proposal) (*versionlog.Commit, []byte, error) {
	now, own := l.instant()
	of := &view{ctx: ctx, source: from, store: s.num}
	if len(p.Changes) < draftFrom {
		of.recent = func(path string) (*versionlog.Version, bool) { return l.recent.head(s.ID, &s.tip, path) }
	}
	c, err := versionlog.Build(of, s.Disputed(now, own), s.tip, p, now)
	if err != nil || !c.Changes() {
		return c, nil, err
	}
	record, err := versionlog.EncodeRecord(c)
	return c, record, err
}

// inTransaction is the source of a transaction that a connection is in.
type inTransaction struct{ conn *sqlite.Conn }

// With implements source.
func (t inTransaction) With(_ context.Context, do func(*sqlite.Conn) error) error { return do(t.conn) }

// reading calls do in a transaction that only reads.
func (l *Log) reading(ctx context.Context, do func(source) error) error {
	return l.db.With(ctx, func(c *sqlite.Conn) error {
		return c.Reading(func() error { return do(inTransaction{c}) })
	})
}
