package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"mneme/errkind"
	"mneme/finding"
	"mneme/internal/awsconf"
	"mneme/versionlog"
)

// CheckNames looks, as Check does of one store, for names in the list of all stores that are no
// store's, and for stores that are not in it. A caller that may not read the list finds
// nothing.
func CheckNames(ctx context.Context, db database, tableName string, s3 objects, bucket string, report func(Problem)) error {
	l := tools(ctx, db, tableName, s3, bucket)
	defer l.endLife()
	err := l.checkListed(ctx, report)
	if err == nil {
		err = l.checkUnlisted(ctx, report)
	}
	if err = awsconf.Explain(err); err == nil || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return fmt.Errorf("compare the list of stores: %w", err)
}

func (l *Log) checkListed(ctx context.Context, report func(Problem)) error {
	for i, err := range l.table.rows(ctx, between{partition: storesPartition, from: "\x00", to: "\U0010ffff"}) {
		if err != nil {
			return err
		}
		slug := sortOf(i)
		m, err := l.table.meta(ctx, (&row{item: i}).text("id"))
		switch {
		case err == nil && m.Slug == slug:
			continue
		case err != nil && !errors.Is(err, versionlog.ErrNotFound):
			return err
		}
		if now, err := l.table.get(ctx, storesPartition, slug, false); err != nil || now == nil { // it was deleted meanwhile, with its store
			return err
		}
		report(Problem{finding.TableName, "row " + storesPartition + " " + slug, "names no store that has this name", doRebuild})
	}
	return nil
}

// checkUnlisted looks for the stores that the bucket describes. A description that cannot be
// read is for Check.
func (l *Log) checkUnlisted(ctx context.Context, report func(Problem)) error {
	for described, err := range l.described(ctx) {
		if err != nil {
			if errkind.Of(err) == errkind.Corrupt {
				return nil
			}
			return err
		}
		m, err := l.table.meta(ctx, described.ID)
		if errors.Is(err, versionlog.ErrNotFound) { // what a deleted store left, or it is in the list
			continue
		}
		if err != nil {
			return err
		}
		listed, err := l.table.get(ctx, storesPartition, m.Slug, false)
		if err != nil {
			return err
		}
		if listed == nil {
			report(Problem{finding.TableName, "row " + storesPartition + " " + m.Slug, "is missing: the store is in no list", doRebuild})
		}
	}
	return nil
}
