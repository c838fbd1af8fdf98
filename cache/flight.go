package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mneme/cas"
)

// flights lets at most one fetch per digest be under way. Its zero value is
// ready for use. (singleflight knows neither waiters that leave nor a context
// that ends with the last of them.)
type flights struct {
	mu     sync.Mutex // guards the fields below and every flight's waiters
	under  map[cas.Digest]*flight
	closed bool

	wg sync.WaitGroup // one per running fetch, or batch
}

// flight is one fetch.
type flight struct {
	waiters int
	cancel  context.CancelCauseFunc

	done chan struct{} // closed when data and err are set
	data []byte
	err  error
}

// do returns the outcome of fetch for d: that of the fetch under way, or of a new
// one. The context that fetch gets ends when no caller waits any more.
func (f *flights) do(ctx context.Context, d cas.Digest, fetch func(context.Context) ([]byte, error)) ([]byte, error) {
	fl, err := f.join(ctx, d, fetch)
	if err != nil {
		return nil, fmt.Errorf("get %v: %w", d, err)
	}
	select {
	case <-fl.done:
		return fl.data, fl.err
	case <-ctx.Done():
		f.leave(d, fl)
		return nil, fmt.Errorf("get %v: %w", d, ctx.Err())
	}
}

func (f *flights) join(ctx context.Context, d cas.Digest, fetch func(context.Context) ([]byte, error)) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if fl, ok := f.under[d]; ok {
		fl.waiters++
		return fl, nil
	}
	fetchCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	fl := &flight{waiters: 1, cancel: cancel, done: make(chan struct{})}
	if f.under == nil {
		f.under = make(map[cas.Digest]*flight)
	}
	f.under[d] = fl
	f.wg.Go(func() { f.run(fetchCtx, d, fl, fetch) })
	return fl, nil
}

func (f *flights) run(ctx context.Context, d cas.Digest, fl *flight, fetch func(context.Context) ([]byte, error)) {
	fl.data, fl.err = fetch(ctx)
	if fl.err != nil && errors.Is(context.Cause(ctx), ErrClosed) {
		fl.err = fmt.Errorf("get %v: %w", d, ErrClosed)
	}
	fl.cancel(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(d, fl)
	close(fl.done)
}

// leave ends the fetch with its last waiter. No caller may join it after that: its outcome
// would be another caller's cancellation.
func (f *flights) leave(d cas.Digest, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiters--; fl.waiters == 0 {
		f.forgetLocked(d, fl)
		fl.cancel(nil)
	}
}

// enter makes close wait until wg.Done is called. It reports whether it does:
// false is that the flights are closed already.
func (f *flights) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.wg.Add(1)
	}
	return !f.closed
}

// forgetLocked drops a flight that has ended. Another fetch for d may be under way already.
func (f *flights) forgetLocked(d cas.Digest, fl *flight) {
	if f.under[d] == fl {
		delete(f.under, d)
	}
}

func (f *flights) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// close cancels all fetches and waits until they have ended.
func (f *flights) close() {
	f.mu.Lock()
	f.closed = true
	for _, fl := range f.under {
		fl.cancel(ErrClosed)
	}
	f.mu.Unlock()
	f.wg.Wait()
}
