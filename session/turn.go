package session

import (
	"context"
	"sync/atomic"
)

// Turn lets the saves of one text follow one another. It is taken after Claims, and
// held during I/O. Its zero value is ready for use; a Turn that was never taken is one
// word.
type Turn struct {
	taken atomic.Pointer[chan struct{}] // has room for one; made when the Turn is first taken
}

// Take returns when the turn is the caller's, who calls release once. The error is that
// of ctx, which ends the waiting: a free turn is granted nevertheless.
func (t *Turn) Take(ctx context.Context) (release func(), err error) {
	taken := t.channel()
	select {
	case taken <- struct{}{}:
	default:
		select {
		case taken <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() { <-taken }, nil
}

func (t *Turn) channel() chan struct{} {
	if c := t.taken.Load(); c != nil {
		return *c
	}
	c := make(chan struct{}, 1)
	if !t.taken.CompareAndSwap(nil, &c) {
		return *t.taken.Load()
	}
	return c
}
