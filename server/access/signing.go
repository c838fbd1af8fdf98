package access

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"mneme/versionlog"
)

// MaxTokenAge is the longest time for which a token counts.
const MaxTokenAge = time.Hour

const signFor = 24 * time.Hour // for which a key signs

// signing returns the key to sign with now, a new one where there is none or it is old.
func (r *Registry) signing(ctx context.Context) (kid string, private ed25519.PrivateKey, err error) {
	s := &r.signer
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.opts.Now().UTC()
	if s.private != nil && now.Before(s.until) {
		return s.kid, s.private, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	kid, until := versionlog.RandomID(10), now.Add(signFor)
	err = r.write(ctx, signingPath(kid), signingKey{public, until.Add(MaxTokenAge)}, versionlog.ExpectAbsent())
	if err != nil {
		return "", nil, fmt.Errorf("publish the key that signs tokens: %w", err)
	}
	s.kid, s.private, s.until = kid, private, until
	r.removeExpired(ctx, now)
	return kid, private, nil
}

// cleanEvery is how often what has expired is removed.
const cleanEvery = MaxTokenAge / 4

// removeExpired removes signing keys and revocations that no token can need any longer,
// unless that was done a short while ago. A removal that fails is left to the next call.
func (r *Registry) removeExpired(ctx context.Context, now time.Time) {
	var paths []string
	r.mu.Lock()
	if now.Sub(r.cleaned).Abs() < cleanEvery {
		r.mu.Unlock()
		return
	}
	r.cleaned = now
	for path, e := range r.entries {
		switch value := e.value.(type) {
		case signingKey:
			if now.After(value.Expires) {
				paths = append(paths, path)
			}
		case revocation: // also by the clock of a server that is behind
			if now.After(value.Expires.Add(MaxTokenAge)) {
				paths = append(paths, path)
			}
		}
	}
	r.mu.Unlock()
	for _, path := range paths {
		if err := r.remove(ctx, path); err != nil && !errors.Is(err, versionlog.ErrNotFound) {
			r.opts.Logger.Warn("what has expired cannot be removed", "path", path, "err", err)
		}
	}
}

// verifying returns the public key that a token names. ErrUnauthenticated.
func (r *Registry) verifying(ctx context.Context, kid string) (ed25519.PublicKey, error) {
	if !isPlain(kid) {
		return nil, ErrUnauthenticated
	}
	e, err := r.find(ctx, signingPath(kid))
	if err != nil {
		return nil, err
	}
	key, ok := e.value.(signingKey)
	if !ok || len(key.Public) != ed25519.PublicKeySize || !r.opts.Now().Before(key.Expires) {
		return nil, ErrUnauthenticated
	}
	return key.Public, nil
}
