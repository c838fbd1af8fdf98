package sqlitelog

import (
	"context"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// surveyed counts commits, versions, contents of versions, and live memories.
const surveyed = `SELECT (SELECT count(*) FROM commits WHERE store = ?1), count(*), count(DISTINCT sha256),
		(SELECT count(*) FROM paths WHERE store = ?1 AND live = 1 AND substr(path, -1) <> '/')
	FROM versions WHERE store = ?1 AND seq <= (SELECT tip_seq FROM stores WHERE num = ?1)`

// survey is one of the log's Capabilities.
func (l *Log) survey(ctx context.Context, storeID string) (*versionlog.Survey, error) {
	num, ok, err := l.Blobs(storeID).ready(ctx, packedFormat)
	if err != nil || !ok {
		return nil, err
	}
	var found versionlog.Survey
	err = retryBusy(ctx, func() error {
		return translate(l.reading(ctx, func(from source) (err error) {
			found, err = queryOne(ctx, from, surveyed, func(row *sqlite.Row) (versionlog.Survey, error) {
				return versionlog.Survey{Commits: row.ColumnInt(0), Versions: row.ColumnInt(1), Contents: row.ColumnInt(2), Memories: row.ColumnInt(3)}, nil
			}, num)
			if err == nil {
				found.Elsewhere, err = queryAll(ctx, from, contentsElsewhere, scanDigest, num)
			}
			return err
		}))
	})
	return &found, err
}
