package dynamolog

import (
	"context"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// behind are the rows of debts that are written in one transaction, each with its OUT row,
// which must be there. So no process writes such a row once another one has paid: otherwise a
// version that was erased since would come back with the row.
//
// That costs twice as much as single writes. A store without erasures uses single writes, and
// still a version cannot come back after the first erasure:
//
//  1. The OUT row of a commit that was made when nothing was erased is not "guarded". The
//     process that has made the commit pays by single writes, once, and begins that within
//     paysUnguarded of the commit; each request is checked against that time once it is signed.
//     Then it removes the OUT row.
//  2. Another process that pays, or a process that pays again, does so in transactions. While
//     the first payment may be under way, it leaves the OUT row, with "paid", the time of its
//     payment by the clock of the servers. A process that finds the row ownerPays later pays
//     once more, and removes the row. The time of the commit itself is known only by the clock
//     of its process, which may be wrong.
//  3. Before an event that erases versions, the process that makes it waits until the commits
//     of these have no such row, or until it has seen them for ownerPays (awaitPayers).
type behind struct {
	debts []debt
	items []types.TransactWriteItem
	sorts map[string]bool
	size  int // about how many bytes
}

// paysUnguarded is how long after a commit its process may begin to pay by single writes,
// for which it then has as long as one operation, and sendsUnguarded when it sends the last.
const (
	paysUnguarded  = 15 * time.Second
	sendsUnguarded = 30 * time.Second
)

// writeBehind writes the rows by which the history of a memory and the commit of a key are
// found.
func (s *store) writeBehind(ctx context.Context, debts []debt) error {
	var single []types.WriteRequest
	var guarded []debt
	bounded := ctx
	for _, d := range debts {
		if d.made.IsZero() {
			guarded = append(guarded, d)
			continue
		}
		bounded = awsconf.Permit(bounded, d.permit)
		for _, i := range s.rowsBehind(d.commits) {
			single = append(single, putRequest(i))
		}
	}
	for _, one := range s.guarded(guarded) {
		if err := s.writeGuarded(ctx, one); err != nil {
			return err
		}
	}
	return s.log.table.write(bounded, single)
}

// guarded returns the transactions that the rows of debts take.
func (s *store) guarded(debts []debt) (all []behind) {
	one := behind{sorts: map[string]bool{}}
	for _, d := range debts {
		rows := s.rowsBehind(d.commits)
		for len(rows) > 0 {
			n := transactable(rows)
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
	return all
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

// transactable is how many of the first rows one transaction takes beside an OUT row.
func transactable(rows []item) (n int) {
	size := 0
	for n < min(len(rows), maxRows-1) {
		size += sizeOf(rows[n])
		if n > 0 && size > maxTransactionBytes {
			break
		}
		n++
	}
	return n
}

// sizeOf is about how many bytes a row of a commit, of a version or of a key has.
func sizeOf(i item) int {
	size := rowBytes
	for _, value := range i {
		switch value := value.(type) {
		case *types.AttributeValueMemberS:
			size += len(value.Value)
		case *types.AttributeValueMemberB:
			size += len(value.Value)
		}
	}
	return size
}

func sizeOfAll(rows []item) (size int) {
	for _, i := range rows {
		size += sizeOf(i)
	}
	return size
}

// fits reports whether rows, and the OUT row that goes with them, may be added: a
// transaction has no row twice.
func (b *behind) fits(rows []item) bool {
	for _, i := range rows {
		if b.sorts[sortOf(i)] {
			return false
		}
	}
	return len(b.items) == 0 || len(b.items)+len(rows)+1 <= maxRows && b.size+sizeOfAll(rows) <= maxTransactionBytes
}

func (b *behind) add(s *store, d debt, rows []item) {
	table := s.log.table.name
	still := putIfThere(table, s.outOf(d))
	b.debts, b.items = append(b.debts, d), append(b.items, still)
	b.size += sizeOfAll(rows)
	for _, i := range rows {
		b.sorts[sortOf(i)] = true
		b.items = append(b.items, put(table, i))
	}
}

// outOf is the OUT row of a debt, as its transaction has made it.
func (s *store) outOf(d debt) item {
	out := outItem(s.id, d.commits, d.guarded)
	out["sk"] = text(d.sort) // which in format 1 has one number
	return out
}

// keeps reports whether the OUT row of a debt stays, with "paid", when that is paid.
func (s *store) keeps(d debt) bool {
	return !d.guarded && !d.alone && !d.overdue && d.made.IsZero() && s.log.ownerPays > 0
}

// settleDebts removes the OUT rows of debts that are paid, or notes in them that they are.
func (s *store) settleDebts(ctx context.Context, debts []debt) error {
	var gone []types.WriteRequest
	for _, d := range debts {
		if !s.keeps(d) {
			gone = append(gone, deleteRequest(s.id, d.sort))
			continue
		}
		now, err := s.log.serverTime(ctx)
		if err != nil {
			return err
		}
		out := s.outOf(d)
		out["paid"] = microsOf(now)
		if err := s.log.transact(ctx, putIfThere(s.log.table.name, out)); err != nil && !isConditionFailed(err) {
			return err
		}
	}
	return s.log.table.write(ctx, gone)
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
		d.made = time.Time{}
		if err := s.writeBehind(ctx, []debt{d}); err != nil {
			return err
		}
	}
	return nil
}

// awaitPayers waits until no process pays by single writes what commits of versions owe.
func (s *store) awaitPayers(ctx context.Context, ids []string) error {
	seqs := map[uint64]bool{}
	for _, id := range ids {
		if seq, _, err := versionlog.LocateVersion(id); err == nil { // else there is no such version
			seqs[seq] = true
		}
	}
	if len(seqs) == 0 || !isStoreID(s.id) {
		return nil
	}
	began := time.Now()
	for attempt := 0; ; attempt++ {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		owing, err := s.owing(ctx, seqs)
		if err != nil || !owing || time.Since(began) > s.log.ownerPays {
			return err
		}
	}
}

// owing reports whether a process may be paying by single writes for one of the commits.
func (s *store) owing(ctx context.Context, seqs map[uint64]bool) (bool, error) {
	for i, err := range s.log.table.below(ctx, s.id, outPrefix) {
		if err != nil {
			return false, err
		}
		o, err := owedOf(i)
		if err != nil {
			return false, err
		}
		for seq := o.first; seq <= o.last && !o.guarded; seq++ {
			if seqs[seq] {
				return true, nil
			}
		}
	}
	return false, nil
}
