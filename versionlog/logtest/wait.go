package logtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// wakeTimeout is how long a Wait may take before it counts as lost. It is far
// above what any backend promises.
const wakeTimeout = 30 * time.Second

// waiter returns when the store of s has a commit above after in l.
type waiter func(ctx context.Context, s *suite, l versionlog.Log, after uint64) error

// waitTests hold for Wait, and for Next of a log that has it.
var waitTests = forBoth(map[string]func(*suite, waiter){
	"Behind":      testWaitBehind,
	"Wakes":       func(s *suite, wait waiter) { s.wakes(s.log, wait) },
	"WakesShared": testWakesShared,
	"Context":     testWaitContext,
	"OtherStore":  testWaitOtherStore,
	"Deleted":     testWaitDeleted,
	"NoneIsLost":  testNoneIsLost,
})

func forBoth(tests map[string]func(*suite, waiter)) map[string]func(*suite) {
	both := map[string]func(*suite){"NextInOrder": testNextInOrder}
	for name, test := range tests {
		both[name] = func(s *suite) { test(s, waitForCommit) }
		both["Next"+name] = func(s *suite) {
			if s.log.Capabilities().Next != nil {
				test(s, nextCommits)
			}
		}
	}
	return both
}

// waitForCommit continues until there is a commit: Wait may return early.
func waitForCommit(ctx context.Context, s *suite, l versionlog.Log, after uint64) error {
	for {
		if err := l.Wait(ctx, s.store.ID, after); err != nil {
			return err
		}
		tip, err := l.Tip(ctx, s.store.ID)
		if err != nil || tip.Seq > after {
			return err
		}
	}
}

// nextCommits makes sure that what Next returns is what Commits begins with.
func nextCommits(ctx context.Context, s *suite, l versionlog.Log, after uint64) error {
	got, err := l.Capabilities().Next(ctx, s.store.ID, after)
	if err != nil {
		return err
	}
	i := 0
	for want, err := range s.log.Commits(ctx, s.store.ID, after) {
		if err != nil || i == len(got) {
			break
		}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			return fmt.Errorf("commit %d of what Next returned above %d: want -, got +:\n%s", i, after, diff)
		}
		i++
	}
	if len(got) == 0 || i < len(got) {
		return fmt.Errorf("next above %d returned %d commits, of which the log has %d", after, len(got), i)
	}
	return nil
}

func testWaitBehind(s *suite, wait waiter) {
	s.put("/a", "1")
	s.must(wait(s.Context(), s, s.log, 0))
	s.put("/a", "2")
	s.must(wait(s.Context(), s, s.log, 0))
	s.must(wait(s.Context(), s, s.log, 1))
}

func testWakesShared(s *suite, wait waiter) {
	if s.cfg.Share == nil {
		return
	}
	s.wakes(s.cfg.Share(s, s.log), wait)
}

// wakes makes sure that several waiters on l hear of a commit of s.log.
func (s *suite) wakes(l versionlog.Log, wait waiter) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	s.put("/a", "0")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := wait(ctx, s, l, 1); err != nil {
				s.Errorf("wait: %v", err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond) // so that they sleep, mostly
	s.put("/a", "1")
	wg.Wait()
}

func testWaitContext(s *suite, wait waiter) {
	s.put("/a", "1")
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	s.wantErr(wait(ctx, s, s.log, 1), context.DeadlineExceeded)
	if took := time.Since(start); took > wakeTimeout/2 {
		s.Errorf("Wait returned %v after its context ended", took)
	}
}

func testWaitOtherStore(s *suite, wait waiter) {
	other := s.addStore("other")
	ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.log.Commit(s.Context(), other.ID, proposal(put("/a", "1", anything)))
	s.must(err)
	s.wantErr(wait(ctx, s, s.log, 0), context.DeadlineExceeded)
}

func testWaitDeleted(s *suite, wait waiter) {
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- wait(ctx, s, s.log, 0) }()
	time.Sleep(10 * time.Millisecond)
	s.must(s.log.DeleteStore(ctx, s.store.ID))
	s.wantErr(<-got, versionlog.ErrNotFound)
}

// testNoneIsLost follows a log commit by commit while it is written to. A wait
// that slept through a commit would hold both sides up.
func testNoneIsLost(s *suite, wait waiter) {
	commits := s.cfg.repeats()
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	reader := s.log
	if s.cfg.Share != nil {
		reader = s.cfg.Share(s, s.log)
	}
	seen := make(chan uint64)
	go func() {
		defer close(seen)
		for after := uint64(0); after < uint64(commits); after++ {
			if err := wait(ctx, s, reader, after); err != nil {
				s.Errorf("wait for a commit above %d: %v", after, err)
				return
			}
			seen <- after + 1
		}
	}()
	for i := range commits {
		s.put("/a", fmt.Sprint(i))
		if got := <-seen; got != uint64(i+1) {
			s.Fatalf("commit %d: the reader saw %d", i+1, got)
		}
	}
}

// testNextInOrder follows a log that another writes to as fast as it can.
func testNextInOrder(s *suite) {
	commits := s.cfg.repeats()
	reader := s.log
	if s.cfg.Share != nil {
		reader = s.cfg.Share(s, s.log)
	}
	nextOf := reader.Capabilities().Next
	if nextOf == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range commits {
			if _, err := s.try(put("/a", fmt.Sprint(i), anything)); err != nil {
				s.Error(err)
				return
			}
		}
	}()
	var got []*versionlog.Commit
	for len(got) < commits {
		next, err := nextOf(ctx, s.store.ID, uint64(len(got)))
		s.must(err)
		got = append(got, next...)
	}
	<-written
	s.equal(got, s.commits(0))
}
