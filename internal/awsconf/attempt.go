package awsconf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
)

const (
	dynamoAttempt = 2 * time.Second
	s3Attempt     = 4 * time.Second
	uploadRate    = 256 << 10 // bytes per second: what a large body has besides
)

// slowError says that an attempt was given up. The SDK takes it for a timeout
// of the connection and tries again.
type slowError struct{ waited time.Duration }

func (e *slowError) Error() string { return fmt.Sprintf("no answer within %v", e.waited) }
func (e *slowError) Timeout() bool { return true }

// limiter is an http.RoundTripper that bounds each attempt of a call: how long
// it waits for the head of the reply, the sending included, and then for each
// next part of the body. A connection that a NAT or a load balancer has
// forgotten answers nothing, and those beside it that idle are likely to be
// forgotten, too; so the next attempt gets a connection of its own.
type limiter struct {
	next  http.RoundTripper
	fixed time.Duration // for every attempt; 0 is by service and size
}

// limit returns how long an attempt may wait.
func (l *limiter) limit(req *http.Request) time.Duration {
	if l.fixed > 0 {
		return l.fixed
	}
	limit := s3Attempt
	if awsmiddleware.GetServiceID(req.Context()) == "DynamoDB" {
		limit = dynamoAttempt
	}
	return limit + time.Duration(max(req.ContentLength, 0))*time.Second/uploadRate
}

// RoundTrip implements http.RoundTripper.
func (l *limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	slow := &slowError{l.limit(req)}
	timer := time.AfterFunc(slow.waited, func() {
		cancel(slow)
		l.CloseIdleConnections()
	})
	resp, err := l.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		timer.Stop()
		err = causeOr(ctx, err)
		cancel(nil)
		return nil, err
	}
	timer.Reset(slow.waited) // one that has just run out shows in the body
	resp.Body = &limitedBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, limit: slow.waited}
	return resp, nil
}

// CloseIdleConnections does so in the transport below.
func (l *limiter) CloseIdleConnections() {
	if next, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// limitedBody is the body of a reply that must not stall. One goroutine reads it.
type limitedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		b.timer.Reset(b.limit)
	case errors.Is(err, io.EOF):
		b.timer.Stop()
	default:
		err = causeOr(b.ctx, err)
	}
	return n, err
}

func (b *limitedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// causeOr returns the slowError for which a context was ended, else err.
func causeOr(ctx context.Context, err error) error {
	var slow *slowError
	if errors.As(context.Cause(ctx), &slow) {
		return slow
	}
	return err
}
