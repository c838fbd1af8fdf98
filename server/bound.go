package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"mneme/gateway/wire"
	"mneme/server/reply"
)

// queueTimeout is how long a request waits when too many are under way.
const queueTimeout = 5 * time.Second

// slowBody is from when on the credential of a request is looked up once more when its body is there.
const slowBody = time.Second

// gatewayTimes is how many times as long as others a request of the gateway may take, which may be
// a stream.
const gatewayTimes = 10

// bounder bounds what is under way: how many requests, and how long each.
//
//  1. A request counts against the share of its caller from its beginning to its end.
//  2. While its body comes it has a place among those that are received; once that is there, or where it
//     has none, among those that are worked on. So clients that send slowly take no place from those
//     that have sent.
//  3. Its time begins when its body is there, and, where that has taken long, its credential still
//     counts. Until then the body has a time of its own, see body.
//  4. One that waits for news gives back all three, and is counted by the lounge.
type bounder struct {
	received, worked queue
	shares           *shares
	times            times
	identities       *identifier
	now              func() time.Time
	logger           *slog.Logger
}

func newBounder(requests, perCaller int, limits times, identities *identifier, now func() time.Time, logger *slog.Logger) *bounder {
	return &bounder{make(queue, requests), make(queue, requests), newShares(perCaller), limits, identities, now, logger}
}

func (b *bounder) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		giveBack, ok := b.shares.take(v.caller)
		if !ok {
			retryAfter(w, time.Second)
			refuse(w, r, b.logger, errTooMany)
			return
		}
		defer giveBack()
		limit := b.times.request
		if strings.HasPrefix(r.URL.Path, wire.Prefix) {
			limit *= gatewayTimes
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		timer := time.AfterFunc(limit, func() { cancel(reply.ErrLate) })
		defer timer.Stop()
		p := &place{}
		defer p.leave()
		first := b.worked
		if r.ContentLength != 0 {
			first = b.received
			var began time.Time
			r.Body = &body{ReadCloser: r.Body, visit: v, length: r.ContentLength, times: b.times, control: http.NewResponseController(w), begins: func() {
				timer.Stop()
				began = b.now()
			}, ends: func() error {
				timer.Reset(limit)
				if b.now().Sub(began) >= slowBody {
					if _, err := b.identities.callerNow(r); err != nil {
						return err
					}
				}
				return p.move(ctx, b.worked)
			}}
		}
		if err := p.move(ctx, first); err != nil {
			retryAfter(w, time.Second)
			refuse(w, r, b.logger, err)
			return
		}
		v.release = func() { giveBack(); timer.Stop(); p.leave() }
		q := r.WithContext(ctx)
		defer func() { // for the log and the counters
			r.Pattern = q.Pattern
			r.SetPathValue("store", q.PathValue("store"))
		}()
		next.ServeHTTP(w, q)
	})
}

// queue has a place for each of those that may be in it.
type queue chan struct{}

// place is what a request has: in one queue at a time, or in none.
type place struct {
	mu   sync.Mutex // guards the fields below; a leaf
	in   queue
	left bool
}

// move gives up the place that is there and waits for one in another queue: for queueTimeout, and
// then returns errOverloaded.
func (p *place) move(ctx context.Context, to queue) error {
	p.set(nil)
	timer := time.NewTimer(queueTimeout)
	defer timer.Stop()
	select {
	case to <- struct{}{}:
		p.set(to)
		return nil
	case <-timer.C:
		return errOverloaded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *place) set(to queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in != nil {
		<-p.in
	}
	if p.in = to; p.left && to != nil {
		<-to
		p.in = nil
	}
}

// leave gives up the place for good.
func (p *place) leave() {
	p.mu.Lock()
	p.left = true
	p.mu.Unlock()
	p.set(nil)
}
