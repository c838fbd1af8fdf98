package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/server/reply"
)

// errPanic is what a client hears of a fault of the server.
var errPanic = errkind.New(errkind.Unknown, "the server has a fault")

// observer sees every request from its beginning to its end.
type observer struct {
	proxies proxies
	times   times
	metrics *metrics
	isOlder func(connected time.Time) bool // whether a connection may hold erased content; see eraser
	logger  *slog.Logger
}

// wrap gives every request an id, a limit of time, a line in the log and its place in the
// metrics. A panic ends the request and nothing else.
func (o *observer) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := reply.NewRequestID()
		w.Header().Set(reply.RequestID, id)
		v := &visit{from: o.proxies.address(r)}
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		connected, _ := r.Context().Value(connectedKey{}).(time.Time)
		aw := &answerWriter{ResponseWriter: w, visit: v, ends: func() bool { return o.isOlder(connected) }, refuse: func(w http.ResponseWriter, err error) { refuse(w, r, o.logger, err) }}
		if r.ProtoMajor == 1 && r.TransferEncoding != nil { // whether a length was there, too, is not to be known: RFC 9112, 6.1
			w.Header().Set("Connection", "close")
		}
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(began.Add(o.times.body + o.times.request + answerTimeout)) // a recorder of tests has none
		o.metrics.underWay.Inc()
		defer func() {
			if fault := recover(); fault != nil && fault != http.ErrAbortHandler {
				o.logger.Error("a request panicked", "request", id, "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
				if v.status == 0 {
					refuse(aw, r, o.logger, errPanic)
				}
			}
			if r.ContentLength != 0 && !v.received { // the client of a request that was refused may say a bit more, and then hears it
				_ = control.SetReadDeadline(time.Now().Add(min(o.times.body, restTimeout)))
			}
			o.metrics.underWay.Dec()
			op := opName(r.Pattern)
			o.metrics.requests.WithLabelValues(op, fmt.Sprint(v.status)).Inc()
			o.metrics.seconds.WithLabelValues(op).Observe(time.Since(began).Seconds())
			o.logger.LogAttrs(r.Context(), slog.LevelInfo, "request", line(r, v, id, op, time.Since(began))...)
		}()
		next.ServeHTTP(aw, r)
	})
}

// opName is the name of an operation in log and metrics: the pattern of its route, of which
// there are few.
func opName(pattern string) string {
	if pattern == "" || pattern == "/" {
		return "none"
	}
	return pattern
}

// line is that of the log: no content, no path of a memory, no credential.
func line(r *http.Request, v *visit, id, op string, took time.Duration) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("id", id), slog.String("op", op), slog.Int("status", v.status), slog.Int64("bytes", v.bytes),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.String("from", v.from),
	}
	if store := r.PathValue("store"); store != "" {
		attrs = append(attrs, slog.String("store", quote.Text(clip(store, 80))))
	}
	if c := v.caller; c != nil {
		attrs = append(attrs, slog.String("key", c.Actor.ID))
		if c.Session != "" {
			attrs = append(attrs, slog.String("session", c.Session))
		}
	}
	return attrs
}

func clip(text string, n int) string {
	if len(text) > n {
		return text[:n]
	}
	return text
}
