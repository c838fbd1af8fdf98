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
	early   string // the id of the first early version; "" is none
}

// The columns of a row: those of every format, and what quotasFormat, eventsFormat,
// policyFormat and earlyFormat add.
const (
	storeColumns = `num, id, slug, name, description, max_bytes, content, created_at, archived_at, tip_seq, tip_digest, tip_time`
	quotaColumns = `, quota_bytes, quota_memories, quota_per_hour, counted_seq, total_bytes, total_memories, in_hour`
	eventColumns = `, metadata, updated_at, epoch, replica`
	policyColumn = `, policy`
	earlyColumn  = `, (SELECT id FROM early WHERE store = num)`
)

// storeByID reads a row of the newest format.
const storeByID = `SELECT ` + storeColumns + quotaColumns + eventColumns + policyColumn + earlyColumn + ` FROM stores WHERE id = ?`

// readStores is how the rows of a format are read, followed by a condition or an order.
func readStores(format int) string {
	columns := storeColumns
	if format >= quotasFormat {
		columns += quotaColumns
	}
	if format >= eventsFormat {
		columns += eventColumns
	}
	if format >= policyFormat {
		columns += policyColumn
	}
	if format >= earlyFormat {
		columns += earlyColumn
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
	if err = readJSON(row, 19, &s.Metadata); err == nil && row.ColumnCount() > 23 {
		err = readJSON(row, 23, &s.Policy)
	}
	if row.ColumnCount() > 24 {
		s.early = row.ColumnText(24)
	}
	return s, err
}

// readJSON reads a column of jsonOf.
func readJSON(row *sqlite.Row, column int, value any) error {
	text := row.ColumnText(column)
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return fmt.Errorf("%w: column %d of a store: %w", versionlog.ErrCorrupt, column, err)
	}
	return nil
}

// jsonOf returns a value as a column; none is the empty text.
func jsonOf(value any, none bool) (string, error) {
	if none {
		return "", nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// settings returns the columns metadata and policy.
func settings(s *versionlog.Store) (metadata, policy string, err error) {
	metadata, err = jsonOf(s.Metadata, len(s.Metadata) == 0)
	if err == nil {
		policy, err = jsonOf(s.Policy, s.Policy == versionlog.Policy{})
	}
	return metadata, policy, err
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
	if s.counted > s.tip.Seq { // Check reports it
		s.counted, s.tip.Totals = 0, versionlog.Totals{}
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
