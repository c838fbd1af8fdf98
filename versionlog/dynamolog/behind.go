package dynamolog

import (
	"context"

	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// behind are the rows of debts that are written in one transaction, each with its OUT row,
// which must be there. So nobody writes such a row any more once another process has paid:
// a version that was erased since would come back with it.
type behind struct {
	debts []debt
	items []types.TransactWriteItem
	sorts map[string]bool
}

// writeBehind writes the rows by which the history of a memory and the commit of a key are
// found.
func (s *store) writeBehind(ctx context.Context, debts []debt) error {
	var all []behind
	one := behind{sorts: map[string]bool{}}
	for _, d := range debts {
		rows := s.rowsBehind(d.commits)
		for len(rows) > 0 {
			n := min(len(rows), maxRows-1)
			if !one.fits(rows[:n]) {
				all = append(all, one)
				one = behind{sorts: map[string]bool{}}
			}
			one.add(s, d, rows[:n])
			rows = rows[n:]
		}
	}
	if len(one.items) > 0 {
		all = append(all, one)
	}
	for _, one := range all {
		if err := s.writeGuarded(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// rowsBehind are the rows that commits owe.
func (s *store) rowsBehind(commits []*versionlog.Commit) (rows []item) {
	for _, c := range commits {
		for i := range c.Versions {
			v := &c.Versions[i]
			rows = append(rows, versionItem(s.id, memSort(v, i), v))
		}
		rows = append(rows, keyItem(c))
	}
	return rows
}

// fits reports whether rows, and the OUT row that goes with them, may be added: a
// transaction has no row twice.
func (b *behind) fits(rows []item) bool {
	for _, i := range rows {
		if b.sorts[sortOf(i)] {
			return false
		}
	}
	return len(b.items) == 0 || len(b.items)+len(rows)+1 <= maxRows
}

func (b *behind) add(s *store, d debt, rows []item) {
	table := s.log.table.name
	out := outItem(s.id, d.commits)
	out["sk"] = text(d.sort) // which in format 1 has one number
	still := put(table, out)
	still.Put.ConditionExpression = aws.String("attribute_exists(sk)")
	b.debts, b.items = append(b.debts, d), append(b.items, still)
	for _, i := range rows {
		b.sorts[sortOf(i)] = true
		b.items = append(b.items, put(table, i))
	}
}

// writeGuarded writes rows unless their debt is paid. Where that of one debt is, the others
// are written one by one.
func (s *store) writeGuarded(ctx context.Context, b behind) error {
	err := s.log.transact(ctx, b.items...)
	if !isConditionFailed(err) {
		return err
	}
	if len(b.debts) == 1 {
		return nil
	}
	for _, d := range b.debts {
		if err := s.writeBehind(ctx, []debt{d}); err != nil {
			return err
		}
	}
	return nil
}
