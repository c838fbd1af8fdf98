package awsconf

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/aws/smithy-go/middleware"
)

type (
	permitKey struct{}
	onceKey   struct{}
)

// Permit returns a context whose requests are sent only while permit returns nil. It is asked
// for each attempt, when that is signed: S3 refuses what arrives more than 15 minutes behind
// the time of its signature, so a process that sleeps between question and sending is refused.
// A permit that ctx has already is asked, too.
func Permit(ctx context.Context, permit func() error) context.Context {
	both := permit
	if outer, ok := ctx.Value(permitKey{}).(func() error); ok {
		both = func() error { return cmp.Or(outer(), permit()) }
	}
	return context.WithValue(ctx, permitKey{}, both)
}

// Once returns a context whose requests are retried only if a server has answered that it
// had no room for them. When any other failed request arrives at the server is not known.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

// addPermit is the middleware of Permit and Once.
func addPermit(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("MnemePermit",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error,
		) {
			if permit, ok := ctx.Value(permitKey{}).(func() error); ok {
				if err := permit(); err != nil {
					return middleware.FinalizeOutput{}, middleware.Metadata{}, &finalError{err}
				}
			}
			out, metadata, err := next.HandleFinalize(ctx, in)
			if err != nil && ctx.Value(onceKey{}) != nil && !hadNoRoom(err) {
				err = &finalError{err}
			}
			return out, metadata, err
		}), "Signing", middleware.After)
}

// hadNoRoom reports whether an error is the answer of a server that has done nothing.
func hadNoRoom(err error) bool {
	var response interface{ HTTPStatusCode() int }
	if !errors.As(err, &response) {
		return false
	}
	status := response.HTTPStatusCode()
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// finalError is an error behind which a request is not sent again.
type finalError struct{ error }

func (e *finalError) Unwrap() error      { return e.error }
func (*finalError) RetryableError() bool { return false }
