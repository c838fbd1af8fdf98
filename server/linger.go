package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"mneme/server/access"
	"mneme/server/reply"
)

// lounge has the requests that wait for news.
type lounge struct {
	registry *access.Registry
	open     context.Context // ends when they are to end
	most     int64
	shares   *shares
	n        atomic.Int64
}

// linger has a request wait for news, see events.Linger. One that is too many has ended when it returns.
func (l *lounge) linger(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	v := visitOf(r)
	v.release()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a recorder of tests has none
	_ = control.SetWriteDeadline(time.Time{})
	watched, unwatch := l.registry.Watch(r.Context(), v.secret)
	ctx, cancel := context.WithCancelCause(watched)
	unlink := context.AfterFunc(l.open, func() { cancel(reply.ErrEnding) })
	giveBack, ok := l.shares.take(v.caller)
	switch n := l.n.Add(1); {
	case !ok:
		giveBack = func() {}
		retryAfter(w, time.Second)
		cancel(inFormOf(r, errTooMany))
	case n > l.most:
		retryAfter(w, time.Second)
		cancel(errOverloaded)
	}
	return ctx, func() {
		l.n.Add(-1)
		giveBack()
		unlink()
		cancel(context.Canceled)
		unwatch()
	}
}
