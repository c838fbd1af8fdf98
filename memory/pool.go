package memory

import (
	"context"
	"sync"
)

// pool runs a bounded number of calls at once, until the first of them fails.
type pool struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	room   chan struct{}
	calls  sync.WaitGroup
}

func newPool(ctx context.Context, workers int) *pool {
	p := &pool{room: make(chan struct{}, max(1, workers))}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// do runs a call beside the caller as soon as there is room; false: one has failed, or the
// context has ended, and nothing more is run.
func (p *pool) do(call func(context.Context) error) bool {
	select {
	case p.room <- struct{}{}:
	case <-p.ctx.Done():
		return false
	}
	if p.ctx.Err() != nil {
		return false
	}
	p.calls.Go(func() {
		defer func() { <-p.room }()
		if err := call(p.ctx); err != nil {
			p.cancel(err) // the first one counts
		}
	})
	return true
}

// wait returns once no call runs any more: nil, or why not all have succeeded.
func (p *pool) wait() error {
	p.calls.Wait()
	err := context.Cause(p.ctx)
	p.cancel(nil)
	return err
}
