package dynamolog

import (
	"context"
	"sync"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	recorders   = 2    // of a Log, at most
	perRecorder = 8    // commits that a recorder takes at a time
	maxPending  = 4096 // commits of a store that wait in memory; a sweep finds the others

	sweepPause   = 30 * time.Second // from when commits of others are noticed to a look for what they left
	longestRetry = 5 * time.Second
)

// outbox is what a store's commits still owe: the records in the bucket, and
// the rows by which the history of a memory is found. The OUT rows, made by the
// commits' own transactions, say which; whoever has paid removes them.
type outbox struct {
	mu       sync.Mutex // guards what follows; taken after the store's, never held during I/O
	pending  map[uint64]bool
	queue    []debt
	running  int       // recorders
	sweeping bool      // whether a sweep is under way or planned
	looking  bool      // whether it is under way
	stopped  bool      // the store is gone
	busy     sync.Cond // signalled when a recorder has done with what it took
}

// debt is one commit that is not in the bucket. That of sequence number 0 is
// the store's description.
type debt struct {
	seq    uint64
	commit *versionlog.Commit
	record []byte
}

// recordLater has commits recorded, off the path of their callers.
func (s *store) recordLater(commits []*versionlog.Commit, records [][]byte) {
	for i, c := range commits {
		s.owe(debt{c.Seq, c, records[i]})
	}
}

// describeLater has the description of the store written.
func (s *store) describeLater() { s.owe(debt{}) }

// owe adds a debt and sees to it that somebody pays.
func (s *store) owe(d debt) {
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped || o.pending[d.seq] && d.seq != 0 {
		return
	}
	if len(o.queue) >= maxPending {
		s.planSweep(sweepPause)
		return
	}
	if o.pending == nil {
		o.pending = map[uint64]bool{}
		o.busy.L = &o.mu
	}
	o.pending[d.seq] = true
	o.queue = append(o.queue, d)
	if o.running < recorders {
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
			delete(o.pending, d.seq)
		}
		for _, d := range failed {
			o.pending[d.seq] = true
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

// pay writes what commits owe and removes their OUT rows. It returns those that
// still owe, with one error.
func (s *store) pay(debts []debt) (failed []debt, err error) {
	ctx, cancel := awsconf.WithTimeout(s.log.life)
	defer cancel()
	var rows []types.WriteRequest
	byseq := map[uint64]debt{}
	for _, d := range debts {
		byseq[d.seq] = d
		if d.commit != nil {
			for i := range d.commit.Versions {
				v := &d.commit.Versions[i]
				rows = append(rows, putRequest(versionItem(s.id, memSort(v, i), v)))
			}
		}
	}
	written := make(chan error, 1)
	go func() { written <- s.log.table.write(ctx, rows) }()
	var mu sync.Mutex // guards paid
	var paid []types.WriteRequest
	_, err = inParallel(byseq, func(seq uint64, d debt) (struct{}, error) {
		var err error
		if d.commit == nil {
			err = s.log.putDescription(ctx, s.id)
		} else {
			err = s.log.records.put(ctx, s.id, seq, d.record)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = append(failed, d)
		} else {
			paid = append(paid, deleteRequest(s.id, outSort(seq)))
		}
		return struct{}{}, err
	})
	if rowsErr := <-written; rowsErr != nil {
		return debts, awsconf.Explain(rowsErr)
	}
	if doneErr := s.log.table.write(ctx, paid); doneErr != nil {
		return debts, awsconf.Explain(doneErr)
	}
	return failed, awsconf.Explain(err)
}

// stopRecording ends the recording of a store that is gone, and waits for what
// is under way.
func (s *store) stopRecording() {
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped, o.queue = true, nil
	for o.running > 0 {
		o.busy.Wait()
	}
}

// sweepLater looks, after a while, for what commits owe that others made and
// did not live to record.
func (s *store) sweepLater(after time.Duration) {
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	s.planSweep(after)
}

// planSweep does it for a caller who holds the outbox's mutex.
func (s *store) planSweep(after time.Duration) {
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
	for i, err := range s.log.table.below(ctx, s.id, outPrefix) {
		if err != nil {
			return err
		}
		seq, err := outSeq(i)
		if err != nil {
			return err
		}
		s.outbox.mu.Lock()
		known := s.outbox.pending[seq]
		s.outbox.mu.Unlock()
		switch {
		case known:
		case seq == 0:
			s.describeLater()
		default:
			c, err := s.recent(ctx, seq)
			if err != nil {
				return err
			}
			record, err := versionlog.EncodeRecord(c)
			if err != nil {
				return err
			}
			s.owe(debt{seq, c, record})
		}
	}
	return nil
}
