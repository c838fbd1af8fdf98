package gateway

import (
	"errors"
	"sync"
	"time"
)

// refused is a credential that the server has not accepted. It is sent again after a while, which
// doubles, by one request at a time: an address from which many come that do not count is slowed,
// with all others behind it. Another credential goes at once.
type refused struct {
	mu     sync.Mutex // guards the fields below; a leaf
	err    error      // nil: none was refused
	secret string
	wait   time.Duration // until it was, or is, sent again
	until  time.Time
}

// For how long a credential that was refused is not sent again: from firstRest on, twice as long each
// time.
const (
	firstRest = time.Second
	maxRest   = 30 * time.Second
)

// mayTry returns why a credential must not be sent now; nil: it may. If the credential was
// refused before, other requests then wait for the outcome of this one.
func (f *refused) mayTry(secret string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case f.err == nil || f.secret != secret:
		return nil
	case now.Before(f.until):
		return f.err
	}
	f.wait = min(2*f.wait, maxRest)
	f.until = now.Add(f.wait)
	return nil
}

// tried notes the result of a request with a credential.
func (f *refused) tried(secret string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, failed := errors.AsType[*failure](err)
	switch isRefused := errors.Is(err, ErrCredential); {
	case isRefused && (f.err == nil || f.secret != secret):
		f.err, f.secret, f.wait, f.until = err, secret, firstRest, time.Now().Add(firstRest)
	case isRefused || f.secret != secret:
	case failed: // perhaps before the server has checked the credential
		f.until = time.Time{}
	default:
		f.err = nil
	}
}
