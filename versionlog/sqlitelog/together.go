package sqlitelog

import (
	"context"
	"errors"
	"slices"

	"mneme/versionlog"
)

// Commit appends what p proposes. It costs one sync of the write-ahead log, which proposals that
// wait at the same time share.
func (l *Log) Commit(ctx context.Context, storeID string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if l.writer == nil {
		return nil, versionlog.ErrReadOnly
	}
	l.packer.committing()
	a := &attempt{ctx: ctx, storeID: storeID, proposal: p, drafted: l.draft(ctx, storeID, p), done: make(chan struct{})}
	var err error
	if p.Finished == nil {
		err = l.writeEarly(ctx, a.drafted)
	}
	if err == nil {
		err = l.submit(a)
	}
	if err != nil || !a.appended {
		l.withdraw(ctx, a.drafted)
	}
	if err != nil {
		return nil, err // the caller knows the store by a better name than its id
	}
	return a.commit, nil
}

// submit hands an attempt to the transaction that is next, and returns once the attempt has ended.
func (l *Log) submit(a *attempt) error {
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
	if err != nil {
		w.queue.giveUp(a, err)
	}
	<-a.done
	return a.err
}

// errPanic says that what has become of an attempt is not known, as after a lost reply.
var errPanic = errors.New("a panic has ended the transaction")

// decide ends attempts, within a transaction that has begun, and ends that. Those that it puts back
// to the queue need another one.
func (l *Log) decide(attempts []*attempt) {
	w := l.writer
	err := errPanic // from which the caller that asked for one of them may recover
	defer func() {
		_ = w.conn.Rollback()
		for _, a := range attempts {
			a.end(err)
		}
	}()
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
			attempts, err = []*attempt{a}, nil
			return
		}
	}
	if made > 0 {
		if err = translate(w.conn.Commit()); err != nil {
			return
		}
		l.made(attempts, rows, &before)
	}
	err = nil
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
		case l.hasTraces(): // of contents that were stored for it, maybe
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
