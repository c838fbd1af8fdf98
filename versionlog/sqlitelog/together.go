package sqlitelog

import (
	"context"
	"errors"
	"slices"
	"sync"

	"mneme/versionlog"
)

// mostTogether is how many changes the proposals of one transaction have, unless it has only one.
const mostTogether = draftFrom

// attempt is a proposal on its way into the history. Proposals that wait for the writers' turn
// share a transaction, and thereby a sync:
//
//  1. An attempt is queued, and its goroutine waits for the turn or for the end of the attempt.
//  2. The goroutine that gets the turn begins a transaction, and only then takes attempts
//     from the queue, the oldest first. Until then each attempt can be given up: its context ends,
//     or it has waited for too long.
//  3. Every attempt is judged against what those before it have left, and undone alone if it fails.
//  4. After the sync, which all of them succeed or fail with, readers and followers learn of the
//     commits. Then the attempts end, and only then the turn does.
//
// If SQLite undoes the whole transaction for the failure of one attempt, that one ends, and the
// others go back to the queue.
type attempt struct {
	ctx      context.Context
	storeID  string
	proposal *versionlog.Proposal
	drafted  *draft

	// What follows belongs to the goroutine that has the turn until done is closed.
	commit   *versionlog.Commit
	appended bool
	row      storeRow // after the commit
	err      error
	done     chan struct{}
}

// isAlone reports whether an attempt shares no transaction: what it does is not of this database
// alone, or takes long.
func (a *attempt) isAlone() bool {
	return a.proposal.Event != nil || a.proposal.Finished != nil || len(a.proposal.Changes) >= mostTogether
}

// end ends an attempt.
func (a *attempt) end(err error) {
	if a.err == nil {
		a.err = err
	}
	close(a.done)
}

func (a *attempt) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// queue are the attempts that wait for the writers' turn.
type queue struct {
	mu      sync.Mutex // guards waiting
	waiting []*attempt
}

func (q *queue) add(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, a)
}

// take removes the attempts of the next transaction.
func (q *queue) take() []*attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	changes, n := 0, 0
	for ; n < len(q.waiting); n++ {
		a := q.waiting[n]
		if changes += max(1, len(a.proposal.Changes)); n > 0 && (a.isAlone() || changes > mostTogether) {
			break
		}
		if a.isAlone() {
			n++
			break
		}
	}
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return taken
}

// putBack returns attempts that were taken.
func (q *queue) putBack(attempts []*attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Concat(attempts, q.waiting)
}

// remove reports whether an attempt was still waiting.
func (q *queue) remove(a *attempt) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, a)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// make returns once an attempt has ended.
func (l *Log) make(a *attempt) error {
	w := l.writer
	w.queue.add(a)
	left, err := w.takeTurnUnless(a.ctx, a.done)
	if err == nil {
		defer func() { <-w.turn }()
		for err == nil && !a.isDone() {
			if err = retryBusyFor(a.ctx, left, func() error { return translate(w.conn.Begin()) }); err == nil {
				l.decide(w.queue.take())
			}
		}
	}
	if err != nil && w.queue.remove(a) {
		return err
	}
	<-a.done
	return a.err
}

// decide ends attempts, within a transaction that has begun, and ends that. Those that it puts back
// to the queue need another one.
func (l *Log) decide(attempts []*attempt) {
	w := l.writer
	before := l.stores.moment()
	rows := map[string]storeRow{} // as the attempts before have left them
	made := 0
	for i, a := range attempts {
		try := func() error { return l.try(a, rows, &before) }
		if len(attempts) == 1 {
			a.err = try()
		} else {
			a.err = translate(w.conn.Nested(try))
		}
		switch {
		case a.err == nil:
			rows[a.storeID] = a.row
			made++
		case !w.conn.InTransaction():
			w.queue.putBack(slices.Delete(attempts, i, i+1))
			a.end(nil)
			return
		}
	}
	var err error
	if made > 0 {
		err = translate(w.conn.Commit())
	}
	if made == 0 || err != nil {
		_ = w.conn.Rollback()
	} else {
		l.made(attempts, rows, &before)
	}
	for _, a := range attempts {
		a.end(err)
	}
}

// try judges the proposal of an attempt, and writes what it becomes.
func (l *Log) try(a *attempt, rows map[string]storeRow, now *moment) (err error) {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	ctx := context.WithoutCancel(a.ctx)
	s, known := rows[a.storeID]
	if !known {
		if s, known = l.stores.get(now, a.storeID); !known {
			if s, err = queryOne(ctx, l.writer, storeByID, scanStore, a.storeID); err != nil {
				return err
			}
		}
		if err := s.count(ctx, l.writer); err != nil {
			return err
		}
	}
	a.row = s
	if a.commit, a.appended, err = l.propose(ctx, &a.row, a.proposal, a.drafted); err != nil {
		return err
	}
	return a.ctx.Err()
}

// made tells of the commits of a transaction, which are durable.
func (l *Log) made(attempts []*attempt, rows map[string]storeRow, before *moment) {
	now := l.stores.advance(before, rows)
	appended := false
	for _, a := range attempts {
		switch c := a.commit; {
		case a.err != nil:
		case a.appended:
			appended = true
			l.remember(&a.row, c)
			if c.Erases() {
				l.recent.forget(a.storeID)
			}
			l.recent.add(c)
		case l.hasTraces(): // of what was stored for it, maybe
			l.packer.redacted()
		}
	}
	if appended {
		l.changes.touch()
		l.packer.committed()
		l.carrier.note(now.frames())
	}
}

// remember notes a commit outside the database.
func (l *Log) remember(s *storeRow, c *versionlog.Commit) {
	tip := knownTip{storeID: s.ID, seq: c.Seq, digest: c.Digest}
	l.tips.note(s.num, tip)
	if c.IsEvent(versionlog.EventArchived) {
		tip.state = tipArchived
		l.tips.note(s.num, tip)
	}
}

// errEnded says that there is nothing to wait for any more.
var errEnded = errors.New("it has ended")
