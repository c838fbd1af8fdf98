package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"mneme/server/access"
	"mneme/server/reply"
)

// errCredentials says that credentials cannot be looked up now, whatever the reason is.
var errCredentials = reply.Unavailable("credentials cannot be looked up now; try again")

// credential is what a request has for one: a bearer token or, as older clients send it, an
// x-api-key.
func credential(r *http.Request) string {
	if scheme, value, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(value)
	}
	return r.Header.Get("X-Api-Key")
}

// identifier knows the credentials.
type identifier struct {
	registry *access.Registry
	throttle *throttle
	crowd    *crowd
	eraser   *eraser
	limit    time.Duration // to find out
	logger   *slog.Logger
}

// callerNow returns the current caller of a request: its credential may be invalid now, or
// have fewer rights than when the request began.
func (i *identifier) callerNow(r *http.Request) (*access.Caller, error) {
	ctx, cancel := context.WithTimeout(r.Context(), i.limit)
	defer cancel()
	caller, err := i.registry.Caller(ctx, visitOf(r).secret)
	if err == nil {
		caller.Opens, caller.Erased = i.eraser.Follow, i.eraser.Told
	}
	if err != nil && !errors.Is(err, access.ErrUnauthenticated) {
		err = fmt.Errorf("%w: %w", errCredentials, err)
	}
	return caller, err
}

// wrap finds out who a request is from. None goes on without a credential that counts.
func (i *identifier) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, secret := visitOf(r), credential(r)
		v.secret = secret
		caller, err := i.callerNow(r)
		if errors.Is(err, access.ErrUnauthenticated) && secret != "" {
			if wait := i.throttle.failed(v.from); wait > 0 {
				retryAfter(w, wait)
				err = errGuessing
			}
		}
		if err == nil {
			i.crowd.hold(r, caller)
			v.caller, err = caller, caller.Budget.Take(1, max(r.ContentLength, 1))
			v.declared = max(r.ContentLength, 1)
		}
		if err != nil {
			refuse(w, r, i.logger, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
