package sqlitelog

import (
	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// storeRow is a row of the table stores.
type storeRow struct {
	versionlog.Store
	num     int64
	tip     versionlog.Tip
	counted uint64 // the commit up to which the totals of tip count
}

// The columns of a row: those of every format, and what quotasFormat adds.
const (
	storeColumns = `num, id, slug, name, description, max_bytes, content, created_at, archived_at, tip_seq, tip_digest, tip_time`
	quotaColumns = `, quota_bytes, quota_memories, quota_per_hour, counted_seq, total_bytes, total_memories, in_hour`
)

// storeByID reads a row of the newest format.
const storeByID = `SELECT ` + storeColumns + quotaColumns + ` FROM stores WHERE id = ?`

// readStores is how the rows of a format are read, followed by a condition or an order.
func readStores(format int) string {
	if format < quotasFormat {
		return `SELECT ` + storeColumns + ` FROM stores `
	}
	return `SELECT ` + storeColumns + quotaColumns + ` FROM stores `
}

func scanStore(row *sqlite.Row) (storeRow, error) {
	s := storeRow{
		Store: versionlog.Store{
			ID: row.ColumnText(1), Slug: row.ColumnText(2), Name: row.ColumnText(3), Description: row.ColumnText(4),
			Limits:    versionlog.Limits{MaxMemoryBytes: row.ColumnInt64(5), Content: versionlog.ContentRule(row.ColumnText(6))},
			CreatedAt: timeIn(row, 7), ArchivedAt: timeIn(row, 8),
		},
		num: row.ColumnInt64(0),
		tip: versionlog.Tip{Seq: uint64(row.ColumnInt64(9)), Time: timeIn(row, 11)},
	}
	var err error
	s.tip.Digest, err = digestIn(row, 10)
	if row.ColumnCount() == 12 { // of an earlier format
		return s, err
	}
	s.Quota = versionlog.Quota{Bytes: row.ColumnInt64(12), Memories: row.ColumnInt64(13), PerHour: row.ColumnInt64(14)}
	s.counted = uint64(row.ColumnInt64(15))
	s.tip.Totals = versionlog.Totals{Bytes: row.ColumnInt64(16), Memories: row.ColumnInt64(17), InHour: row.ColumnInt64(18)}
	return s, err
}

// isCounted reports whether the totals are those of all commits.
func (s *storeRow) isCounted() bool { return s.counted == s.tip.Seq }

// end returns the tip. Its totals are right if isCounted.
func (s *storeRow) end() versionlog.Tip {
	tip := s.tip
	tip.ArchivedAt = s.ArchivedAt
	return tip
}

// The totals of a store as its versions and commits tell them.
const (
	bytesOf    = `(SELECT coalesce(sum(size), 0) FROM versions WHERE store = num AND op IN ('created', 'modified'))`
	memoriesOf = `(SELECT count(*) FROM paths WHERE store = num AND live = 1)`
	inHourOf   = `(SELECT count(*) FROM commits c JOIN versions v ON v.store = c.store AND v.seq = c.seq
		WHERE c.store = num AND c.time / 3600000000 = tip_time / 3600000000)`

	countStores = `UPDATE stores SET counted_seq = tip_seq, total_bytes = ` + bytesOf + `,
		total_memories = ` + memoriesOf + `, in_hour = ` + inHourOf + ` WHERE counted_seq <> tip_seq`
)

// countStore reads a row of a format with totals that are counted now: what is in the
// row is not enough in an earlier format, nor where a mneme of one still writes.
func countStore(format int) string {
	quota := `quota_bytes, quota_memories, quota_per_hour`
	if format < quotasFormat {
		quota = `0, 0, 0`
	}
	return `SELECT ` + storeColumns + `, ` + quota + `, tip_seq, ` + bytesOf + `, ` + memoriesOf + `, ` + inHourOf + ` FROM stores WHERE num = ?`
}
