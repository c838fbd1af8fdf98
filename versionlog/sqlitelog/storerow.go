package sqlitelog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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

// The columns of a row: those of every format, and what quotasFormat and eventsFormat
// add.
const (
	storeColumns = `num, id, slug, name, description, max_bytes, content, created_at, archived_at, tip_seq, tip_digest, tip_time`
	quotaColumns = `, quota_bytes, quota_memories, quota_per_hour, counted_seq, total_bytes, total_memories, in_hour`
	eventColumns = `, metadata, updated_at, epoch, replica`
)

// storeByID reads a row of the newest format.
const storeByID = `SELECT ` + storeColumns + quotaColumns + eventColumns + ` FROM stores WHERE id = ?`

// readStores is how the rows of a format are read, followed by a condition or an order.
func readStores(format int) string {
	columns := storeColumns
	if format >= quotasFormat {
		columns += quotaColumns
	}
	if format >= eventsFormat {
		columns += eventColumns
	}
	return `SELECT ` + columns + ` FROM stores `
}

func scanStore(row *sqlite.Row) (storeRow, error) {
	s := storeRow{
		Store: versionlog.Store{
			ID: row.ColumnText(1), Slug: row.ColumnText(2), Name: row.ColumnText(3), Description: row.ColumnText(4),
			Limits:    versionlog.Limits{MaxMemoryBytes: row.ColumnInt64(5), Content: versionlog.ContentRule(row.ColumnText(6))},
			CreatedAt: timeIn(row, 7), ArchivedAt: timeIn(row, 8), Epoch: 1,
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
	if row.ColumnCount() == 19 || err != nil {
		return s, err
	}
	s.UpdatedAt, s.Epoch, s.Replica = timeIn(row, 20), uint64(row.ColumnInt64(21)), row.ColumnInt64(22) != 0
	s.Metadata, err = metadataIn(row.ColumnText(19))
	return s, err
}

// metadataIn and metadataText: the empty text stands for none.
func metadataIn(text string) (pairs map[string]string, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, fmt.Errorf("%w: metadata of a store: %w", versionlog.ErrCorrupt, err)
	}
	return pairs, nil
}

func metadataText(pairs map[string]string) (string, error) {
	if len(pairs) == 0 {
		return "", nil
	}
	text, err := json.Marshal(pairs)
	return string(text), err
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
	memoriesOf = `(SELECT count(*) FROM paths WHERE store = num AND live = 1 AND substr(path, -1) <> '/')`
	inHourOf   = `(SELECT count(*) FROM commits c JOIN versions v ON v.store = c.store AND v.seq = c.seq
		WHERE c.store = num AND c.time / 3600000000 = tip_time / 3600000000)`

	countStores = `UPDATE stores SET counted_seq = tip_seq, total_bytes = ` + bytesOf + `,
		total_memories = ` + memoriesOf + `, in_hour = ` + inHourOf + ` WHERE counted_seq <> tip_seq`
)

// count makes the totals those of all commits, from the commit on up to which they count:
// a mneme of an earlier format may have made others since.
func (s *storeRow) count(ctx context.Context, from source) error {
	if s.isCounted() {
		return nil
	}
	tip := versionlog.Tip{Seq: s.counted, Totals: s.tip.Totals}
	if s.counted > 0 {
		made, err := queryOne(ctx, from, timeOf, scanMicros, s.num, int64(s.counted))
		if err != nil {
			return err
		}
		tip.Time = time.UnixMicro(made).UTC()
	}
	for c, err := range commitsAfter(ctx, from, s, s.counted) {
		if err != nil {
			return err
		}
		if tip = tip.After(c); tip.Seq == s.tip.Seq {
			break
		}
	}
	if tip.Seq != s.tip.Seq {
		return fmt.Errorf("%w: commit %d is missing", versionlog.ErrCorrupt, tip.Seq+1)
	}
	s.tip.Totals, s.counted = tip.Totals, tip.Seq
	return nil
}

func scanMicros(row *sqlite.Row) (int64, error) { return row.ColumnInt64(0), nil }
