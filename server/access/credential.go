package access

import (
	"context"
	"strings"
	"time"
)

const maxCredential = 8 << 10 // bytes

// Caller returns the source of a request by its credential, the secret of a key or a token:
// ErrUnauthenticated does not say why the credential is not accepted; any other error says
// that the credentials cannot be looked up.
func (r *Registry) Caller(ctx context.Context, credential string) (*Caller, error) {
	switch {
	case len(credential) > maxCredential:
		return nil, ErrUnauthenticated
	case strings.HasPrefix(credential, secretPrefix):
		return r.keyCaller(ctx, credential)
	case strings.Count(credential, ".") == 2:
		return r.tokenCaller(ctx, credential)
	}
	return nil, ErrUnauthenticated
}

// Watch returns a context that ends with ctx, and as soon as a credential counts no more.
func (r *Registry) Watch(ctx context.Context, credential string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			r.mu.Lock()
			changed := r.changed
			r.mu.Unlock()
			c, err := r.Caller(ctx, credential)
			if err != nil {
				cancel(err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-r.expiry(c):
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-ended }
}

// expiry is ready once a caller's credential has expired; never where it does not.
func (r *Registry) expiry(c *Caller) <-chan time.Time {
	if c.Until.IsZero() {
		return nil
	}
	return time.After(c.Until.Sub(r.opts.Now()))
}
