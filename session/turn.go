package session

import (
	"context"
	"sync/atomic"
)

// Turn lets the saves of one text follow one another. It is taken after Claims, and held during
// I/O. Its zero value is ready for use. It is one word, and nothing more until a caller waits for
// it.
type Turn struct {
	taken atomic.Pointer[chan struct{}] // nil: no caller has it, and none has ever waited
}

// alone says that a caller has a Turn for which no other has waited yet. The first that waits
// puts a channel in its place, which is full while the Turn is taken.
var alone = new(chan struct{})

// Take returns when the turn is the caller's; the caller calls release once. The error is that of
// ctx, which ends the waiting: a free turn is granted nevertheless.
func (t *Turn) Take(ctx context.Context) (release func(), err error) {
	if err := t.take(ctx); err != nil {
		return nil, err
	}
	return t.release, nil // Take is inlined, so that this may stay on the caller's stack
}

func (t *Turn) take(ctx context.Context) error {
	if t.taken.CompareAndSwap(nil, alone) {
		return nil
	}
	taken := t.channel()
	select {
	case taken <- struct{}{}:
		return nil
	default:
	}
	select {
	case taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// channel is the channel at which callers wait, be the turn taken or not.
func (t *Turn) channel() chan struct{} {
	for {
		now := t.taken.Load()
		if now != nil && now != alone {
			return *now
		}
		c := make(chan struct{}, 1)
		if now == alone {
			c <- struct{}{}
		}
		if t.taken.CompareAndSwap(now, &c) {
			return c
		}
	}
}

func (t *Turn) release() {
	if !t.taken.CompareAndSwap(alone, nil) {
		<-*t.taken.Load() // a channel has come, and stays
	}
}
