package awsconf

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// renewable are credentials that are read again, from where they came from, when
// a server no longer takes them. The SDK does that by itself only for those that
// say when they expire; the session token of a file does not.
type renewable struct {
	// reload reads the configuration again. Nil: the credentials are fixed.
	reload func(context.Context) (aws.CredentialsProvider, error)

	reading chan struct{} // holds a token while they are read again; taken before mu

	mu      sync.Mutex // guards the fields below; never held during I/O
	current aws.CredentialsProvider
	readAt  time.Time // when they were last read again
}

// rereadPause is how long credentials that did not change are not read again.
const rereadPause = time.Second

func newRenewable(current aws.CredentialsProvider, reload func(context.Context) (aws.CredentialsProvider, error)) *renewable {
	return &renewable{current: explainedCredentials{current}, reload: reload, reading: make(chan struct{}, 1)}
}

// Retrieve implements aws.CredentialsProvider.
func (r *renewable) Retrieve(ctx context.Context) (aws.Credentials, error) {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	return current.Retrieve(ctx)
}

// identity is what tells credentials apart in a request.
type identity struct{ key, token string }

// renew reads the credentials again, unless another call has done so since the
// refused ones were used. It reports whether there are others now.
func (r *renewable) renew(ctx context.Context, refused identity) bool {
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return false
	}
	if r.differ(ctx, refused) {
		return true
	}
	r.mu.Lock()
	soon := time.Since(r.readAt) < rereadPause
	r.mu.Unlock()
	if r.reload == nil || soon {
		return false
	}
	read, err := r.reload(ctx)
	if err == nil {
		_, err = read.Retrieve(ctx)
	}
	r.mu.Lock()
	r.readAt = time.Now()
	if err == nil {
		r.current = explainedCredentials{read}
	}
	r.mu.Unlock()
	return r.differ(ctx, refused)
}

// differ reports whether the current credentials are others.
func (r *renewable) differ(ctx context.Context, refused identity) bool {
	current, err := r.Retrieve(ctx)
	return err == nil && refused != identity{current.AccessKeyID, current.SessionToken}
}

// renewedError is a refusal of credentials in whose place there are others now.
type renewedError struct{ err error }

func (e *renewedError) Error() string { return e.err.Error() }
func (e *renewedError) Unwrap() error { return e.err }

// RetryableError tells the SDK to try again.
func (e *renewedError) RetryableError() bool { return true }

var signedBy = regexp.MustCompile(`Credential=([^/]+)/`)

// renewOnRefusal is a middleware that reads the credentials again when a request
// is refused for them.
func (r *renewable) renewOnRefusal(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MnemeRenewCredentials",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			var api smithy.APIError
			if !errors.As(err, &api) || !isOutdated(api.ErrorCode()) {
				return out, metadata, err
			}
			req, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return out, metadata, err
			}
			refused := identity{token: req.Header.Get("X-Amz-Security-Token")}
			if m := signedBy.FindStringSubmatch(req.Header.Get("Authorization")); m != nil {
				refused.key = m[1]
			}
			if r.renew(ctx, refused) {
				err = &renewedError{err}
			}
			return out, metadata, err
		}), middleware.Before)
}

// isOutdated reports whether an error says that credentials are no longer, or
// not, known to be good.
func isOutdated(code string) bool {
	switch hints[code] {
	case expired, badKey:
		return true
	}
	return false
}
