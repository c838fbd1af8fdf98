package memory

import (
	"context"
	"errors"
	"testing"

	"mneme/versionlog"
)

// TestFollowings: however many wait for the same, the log is asked once, until the last one goes.
func TestFollowings(t *testing.T) {
	var f followings
	asked := make(chan context.Context, 10)
	release := make(chan []*versionlog.Commit)
	next := func(ctx context.Context, _ string, after uint64) ([]*versionlog.Commit, error) {
		asked <- ctx
		select {
		case commits := <-release:
			return commits, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	first, cancelFirst := context.WithCancel(t.Context())
	one := f.join(first, followed{"a", 1}, next)
	if f.join(t.Context(), followed{"a", 1}, next) != one || f.join(t.Context(), followed{"a", 2}, next) == one {
		t.Error("what is shared is not what is the same")
	}
	<-asked
	<-asked
	cancelFirst()
	if _, err := f.next(first, "a", 1, next); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	got := make(chan error)
	third, cancelThird := context.WithCancel(t.Context())
	go func() {
		_, err := f.next(third, "b", 1, next)
		got <- err
	}()
	shared := <-asked
	cancelThird()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-shared.Done() // no caller waits for it any longer
	for range 2 {
		release <- []*versionlog.Commit{{Seq: 3}}
	}
	<-one.done
	if one.err != nil || one.commits[0].Seq != 3 || len(asked) > 0 {
		t.Errorf("%+v, %v, asked %d times more", one.commits, one.err, len(asked))
	}
}
