package dynamolog

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"
)

const (
	recorders   = 4    // of a store, at most: they take from the table what commits need
	perRecorder = 8    // transactions that a recorder takes at a time
	backlog     = 64   // transactions that wait before another recorder begins
	maxPending  = 1024 // transactions of a store that wait in memory; a sweep finds the others

	sweepPause   = 30 * time.Second // from the notice of others' commits to a look for their unpaid debts
	longestRetry = 5 * time.Second
)

// outbox is the debts of a store's transactions: the records in the bucket, and the rows by
// which the history of a memory and the commit of a key are found. The OUT rows, made by
// the transactions themselves, list them; a process that has paid removes them.
type outbox struct {
	mu       sync.Mutex // guards the fields below; taken after the store's, never held during I/O
	pending  map[span]bool
	queue    []debt
	running  int       // recorders
	sweeping bool      // whether a sweep is under way or planned
	looking  bool      // whether it is under way
	stopped  bool      // the store is gone
	denied   bool      // the credentials may not replace the store's description
	busy     sync.Cond // signalled when a recorder has done with what it took
}

// debt is what one transaction owes. Without commits, it is the store's
// description.
type debt struct {
	span
	sort    string // of the OUT row
	commits []*versionlog.Commit
	records []byte
	guarded bool         // what the OUT row says
	made    time.Time    // when this process has made it, and has not tried to pay it yet; else zero
	alone   bool         // no other process pays it
	overdue bool         // another process than the one that made it has paid ownerPays ago
	permit  func() error // of one that this process has made: nil while single writes may be sent
}

// recordLater has the commits of a transaction recorded, off the path of their
// callers.
func (s *store) recordLater(commits []*versionlog.Commit, records []byte, guarded bool) {
	of := spanOf(commits)
	d := debt{span: of, sort: outSort(of), commits: commits, records: records, guarded: guarded}
	if !guarded {
		d.made, d.permit = time.Now(), permitFor(s.log.now, sendsUnguarded)
	}
	s.owe(d)
}

// describeLater has the description of the store written.
func (s *store) describeLater() { s.owe(debt{sort: descriptionSort}) }

// owe adds a debt and starts a recorder that pays it.
func (s *store) owe(d debt) {
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped || o.pending[d.span] && d.commits != nil {
		return
	}
	if len(o.queue) >= maxPending {
		s.planSweepLocked(sweepPause)
		return
	}
	if o.pending == nil {
		o.pending = map[span]bool{}
		o.busy.L = &o.mu
	}
	o.pending[d.span] = true
	o.queue = append(o.queue, d)
	if o.running < min(recorders, 1+len(o.queue)/backlog) {
		o.running++
		s.log.work.Go(s.record)
	}
}

// record pays what is owed until nothing is.
func (s *store) record() {
	o := &s.outbox
	failures := 0
	for {
		o.mu.Lock()
		n := min(len(o.queue), perRecorder)
		taken := append([]debt(nil), o.queue[:n]...)
		o.queue = o.queue[n:]
		if n == 0 || o.stopped {
			o.running--
			o.queue = nil
			o.busy.Broadcast()
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		failed, err := s.pay(taken)
		o.mu.Lock()
		for _, d := range taken {
			delete(o.pending, d.span)
		}
		for i := range failed {
			o.pending[failed[i].span] = true
			failed[i].made = time.Time{}
		}
		o.queue = append(failed, o.queue...)
		o.mu.Unlock()
		if err == nil {
			failures = 0
			continue
		}
		failures++
		s.log.logger.Warn("commits are not in the bucket yet, trying again", "store", s.id, "op", "record", "err", err)
		if pause(s.log.life, min(longestRetry, 100*time.Millisecond<<min(failures, 6))) != nil {
			o.mu.Lock()
			o.running--
			o.queue = nil // the OUT rows tell the next Log
			o.busy.Broadcast()
			o.mu.Unlock()
			return
		}
	}
}

// pay writes what transactions owe and removes their OUT rows. It returns those
// that still owe, with one error.
func (s *store) pay(debts []debt) (failed []debt, err error) {
	ctx, cancel := awsconf.WithTimeout(s.log.life)
	defer cancel()
	byspan := map[span]debt{}
	for i := range debts {
		if d := &debts[i]; time.Since(d.made) > paysUnguarded {
			d.made = time.Time{}
		}
		byspan[debts[i].span] = debts[i]
	}
	written := make(chan error, 1)
	go func() { written <- s.writeBehind(ctx, debts) }()
	var mu sync.Mutex // guards paid
	var paid []debt
	_, err = inParallel(byspan, func(of span, d debt) (struct{}, error) {
		var err error
		if d.commits == nil {
			if err = s.describe(ctx); errors.Is(err, fs.ErrPermission) {
				s.leaveDescription(err)
				return struct{}{}, nil
			}
		} else {
			err = s.log.records.put(ctx, s.id, of, d.records)
			if errors.Is(err, errOtherRecord) {
				s.stop(err)
				return struct{}{}, nil // its OUT row tells the next process
			}
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failed = append(failed, d)
		case d.commits != nil:
			paid = append(paid, d)
		}
		return struct{}{}, err
	})
	if rowsErr := <-written; rowsErr != nil {
		return debts, awsconf.Explain(rowsErr)
	}
	if doneErr := s.settleDebts(ctx, paid); doneErr != nil {
		return debts, awsconf.Explain(doneErr)
	}
	return failed, awsconf.Explain(err)
}

// leaveDescription leaves the description of the store to a process whose
// credentials may replace it. The OUT row stays, and tells it.
func (s *store) leaveDescription(err error) {
	s.outbox.mu.Lock()
	s.outbox.denied = true
	s.outbox.mu.Unlock()
	s.log.logger.Info("the description in the bucket is out of date, and these credentials may not replace it", "store", s.id, "op", "record", "err", err)
}

// stopRecording ends the recording of a store that is gone, and waits for writes under way.
func (s *store) stopRecording() {
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped, o.queue = true, nil
	for o.running > 0 {
		o.busy.Wait()
	}
}

// sweepLater looks, after a while, for debts of commits whose processes died before they
// recorded them.
func (s *store) sweepLater(after time.Duration) {
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	s.planSweepLocked(after)
}

// planSweepLocked does it; the lock is the outbox's.
func (s *store) planSweepLocked(after time.Duration) {
	o := &s.outbox
	if s.log.readOnly || o.sweeping || o.stopped {
		return
	}
	o.sweeping, o.looking = true, after == 0
	s.log.work.Go(func() { s.sweep(after) })
}

func (s *store) sweep(after time.Duration) {
	o := &s.outbox
	defer func() {
		o.mu.Lock()
		o.sweeping, o.looking = false, false
		o.mu.Unlock()
	}()
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.log.closing:
			return
		}
	}
	ctx, cancel := awsconf.WithTimeout(s.log.life)
	defer cancel()
	if err := s.collect(ctx); err != nil && s.log.life.Err() == nil {
		s.log.logger.Warn("the outbox could not be looked through", "store", s.id, "op", "sweep", "err", awsconf.Explain(err))
	}
}

// collect makes the debts that the OUT rows tell of those of this Log.
func (s *store) collect(ctx context.Context) error {
	var now time.Time // by the servers, once an OUT row says when it was paid
	for i, err := range s.log.table.below(ctx, s.id, outPrefix) {
		if err != nil {
			return err
		}
		o, err := owedOf(i)
		if err != nil {
			return err
		}
		if !o.paid.IsZero() && now.IsZero() {
			if now, err = s.log.serverTime(ctx); err != nil {
				return err
			}
		}
		s.outbox.mu.Lock()
		known := s.outbox.pending[o.span] || o.last == 0 && s.outbox.denied
		s.outbox.mu.Unlock()
		switch {
		case known:
		case !o.paid.IsZero() && now.Sub(o.paid) < s.log.ownerPays:
		case o.last == 0:
			s.describeLater()
		default:
			commits, records, err := s.log.recorded(ctx, s.id, o.span)
			if err != nil {
				return err
			}
			s.owe(debt{span: o.span, sort: o.sort, commits: commits, records: records, guarded: o.guarded, overdue: !o.paid.IsZero()})
		}
	}
	return nil
}
