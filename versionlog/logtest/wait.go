package logtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mneme/versionlog"
)

// wakeTimeout is how long a Wait may take before it counts as lost. It is far
// above what any backend promises.
const wakeTimeout = 30 * time.Second

var waitTests = map[string]func(*suite){
	"Behind":      testWaitBehind,
	"Wakes":       func(s *suite) { s.wakes(s.log) },
	"WakesShared": testWakesShared,
	"Context":     testWaitContext,
	"OtherStore":  testWaitOtherStore,
	"Deleted":     testWaitDeleted,
	"NoneIsLost":  testNoneIsLost,
}

func testWaitBehind(s *suite) {
	s.put("/a", "1")
	s.must(s.log.Wait(s.Context(), s.store.ID, 0))
	s.put("/a", "2")
	s.must(s.log.Wait(s.Context(), s.store.ID, 1))
}

func testWakesShared(s *suite) {
	if s.cfg.Share == nil {
		return
	}
	s.wakes(s.cfg.Share(s, s.log))
}

// waitFor waits on l until the store has a commit above after: Wait may return
// early without one.
func (s *suite) waitFor(ctx context.Context, l versionlog.Log, after uint64) error {
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

// wakes makes sure that several waiters on l hear of a commit of s.log.
func (s *suite) wakes(l versionlog.Log) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	s.put("/a", "0")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.waitFor(ctx, l, 1); err != nil {
				s.Errorf("wait: %v", err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond) // so that they sleep, mostly
	s.put("/a", "1")
	wg.Wait()
}

func testWaitContext(s *suite) {
	s.put("/a", "1")
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	s.wantErr(s.waitFor(ctx, s.log, 1), context.DeadlineExceeded)
	if took := time.Since(start); took > wakeTimeout/2 {
		s.Errorf("Wait returned %v after its context ended", took)
	}
}

func testWaitOtherStore(s *suite) {
	other := s.addStore("other")
	ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.log.Commit(ctx, other.ID, proposal(put("/a", "1", anything)))
	s.must(err)
	s.wantErr(s.waitFor(ctx, s.log, 0), context.DeadlineExceeded)
}

func testWaitDeleted(s *suite) {
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- s.waitFor(ctx, s.log, 0) }()
	time.Sleep(10 * time.Millisecond)
	s.must(s.log.DeleteStore(ctx, s.store.ID))
	s.wantErr(<-got, versionlog.ErrNotFound)
}

// testNoneIsLost follows a log commit by commit while it is written to. A wait
// that slept through a commit would hold both sides up.
func testNoneIsLost(s *suite) {
	const commits = 200
	ctx, cancel := context.WithTimeout(s.Context(), wakeTimeout)
	defer cancel()
	reader := s.log
	if s.cfg.Share != nil {
		reader = s.cfg.Share(s, s.log)
	}
	seen := make(chan uint64)
	go func() {
		defer close(seen)
		for after := uint64(0); after < commits; after++ {
			if err := s.waitFor(ctx, reader, after); err != nil {
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
