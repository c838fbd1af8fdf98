package fusefs

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestCatchUp waits for commits that are in the log and not in the tree, is interrupted, and ends
// when they are followed, or not for too long.
func TestCatchUp(t *testing.T) {
	r := newRig(t)
	r.must(r.s.tree.Walk(t.Context()))
	r.s.patience = time.Hour
	r.must(r.s.catchUp(t.Context())) // there is nothing to wait for
	r.write("/f", "theirs")
	// waiting starts a request, and returns when it waits.
	waiting := func(ctx context.Context) (ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- r.s.catchUp(ctx) }()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			unlock := r.looking()
			waits = r.s.tree.IsAwaitedLocked()
			unlock()
		}
		return ended
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	ended := waiting(interrupted)
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that is interrupted: %v, want %v", err, context.Canceled)
	}
	r.follow()
	r.write("/f", "theirs, too")
	ended = waiting(t.Context())
	r.follow()
	if err := <-ended; err != nil {
		t.Errorf("a request that has waited: %v", err)
	}
	r.write("/f", "theirs again")
	r.s.patience = time.Millisecond
	r.must(r.s.catchUp(t.Context())) // without the commit that is not followed
}
