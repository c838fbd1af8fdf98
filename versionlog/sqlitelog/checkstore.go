package sqlitelog

import (
	"context"
	"fmt"
)

// Check compares every row of a store with the commit records, column by column,
// and calls report for each difference. It changes nothing.
//
// It does not report records that are missing or damaged, and does not compare the rows that such
// a record explains: package memory verifies the records, and the contents of versions. Contents
// of no version are verified here. Commits may be made meanwhile; Check ignores those after its
// beginning. About the store's own row the records know the newest commit and the totals of all
// commits, and its properties if they begin with its creation. An error says that the database
// could not be read.
func (l *Log) Check(ctx context.Context, storeID string, report func(Problem)) error {
	s, err := l.store(ctx, storeID)
	if err != nil {
		return err
	}
	c := newChecker(l, s, report)
	for _, step := range []func(context.Context) error{c.commits, c.pathRows, c.strays, c.contents, c.packed} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("store %s: compare rows with records: %w", s.Slug, err)
		}
	}
	return nil
}
