package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"mneme/errkind"
	"mneme/versionlog"
)

// Limits of the fields with which a session is made.
const (
	maxResources = 20
	maxSessionID = 100 // bytes
)

// ErrTooManyTokens says that a key has made as many tokens as it may for now.
var ErrTooManyTokens = errkind.New(errkind.OverQuota, "the key has made too many tokens within an hour; make fewer that last longer")

// ErrBadSession says why no token can be made.
var ErrBadSession = errkind.New(errkind.Invalid, "no session of that")

// Session is what a token allows: stores, each with Read or Write, in the name of a session
// and of the key that it was made with, until it expires. Budgets count what one server
// answers.
type Session struct {
	ID       string           // "sess_…"; "" makes one
	Grants   map[string]Right // by the id of a store
	Expires  time.Time        // zero: after MaxTokenAge
	MaxCalls int              // requests; 0 is any number
	MaxBytes int64            // read and written; 0 is any number
}

// claims are what a token says, see RFC 7519.
type claims struct {
	jwt.RegisteredClaims
	Session  string           `json:"sid"`
	Grants   map[string]Right `json:"stores"`
	MaxCalls int              `json:"calls,omitempty"`
	MaxBytes int64            `json:"bytes,omitempty"`
}

// NewToken makes the token of a session, in the name of a caller with a key, whose rights
// bound it. ErrBadSession, ErrDenied, versionlog.ErrNotFound.
func (r *Registry) NewToken(ctx context.Context, c *Caller, s Session) (token, tokenID string, made Session, err error) {
	now := r.opts.Now().UTC()
	if s.Expires.IsZero() {
		s.Expires = now.Add(MaxTokenAge)
	}
	if !c.Until.IsZero() && c.Until.Before(s.Expires) {
		s.Expires = c.Until
	}
	s.Expires = s.Expires.UTC().Truncate(time.Second)
	if s.ID == "" {
		s.ID = "sess_" + versionlog.RandomID(15)
	}
	if err := r.checkSession(c, &s, now); err != nil {
		return "", "", s, err
	}
	kid, private, err := r.signing(ctx)
	if err != nil {
		return "", "", s, err
	}
	if !r.minted.take(c.Key.ID, now) {
		return "", "", s, ErrTooManyTokens
	}
	id := "tok_" + versionlog.RandomID(15)
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID: id, Subject: c.Key.ID, Audience: jwt.ClaimStrings{r.store.Info().ID},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(s.Expires),
		},
		Session: s.ID, Grants: s.Grants, MaxCalls: s.MaxCalls, MaxBytes: s.MaxBytes,
	})
	t.Header["kid"] = kid
	token, err = t.SignedString(private)
	return token, id, s, err
}

func (r *Registry) checkSession(c *Caller, s *Session, now time.Time) error {
	switch {
	case c.Token != "" || c.Key == nil:
		return fmt.Errorf("%w: a session is made with a key, not with the token of another", ErrDenied)
	case !isSessionID(s.ID):
		return fmt.Errorf("%w: its id has other characters than letters, digits, - _ . : or more than %d", ErrBadSession, maxSessionID)
	case !now.Before(s.Expires) || s.Expires.Sub(now) > MaxTokenAge:
		return fmt.Errorf("%w: it ends after %v; want up to %v", ErrBadSession, s.Expires.Sub(now).Round(time.Second), MaxTokenAge)
	case len(s.Grants) == 0 || len(s.Grants) > maxResources:
		return fmt.Errorf("%w: it has %d stores; want 1 to %d", ErrBadSession, len(s.Grants), maxResources)
	case s.MaxCalls < 0 || s.MaxBytes < 0:
		return fmt.Errorf("%w: a budget is below 0", ErrBadSession)
	}
	for id, right := range s.Grants {
		if right != Read && right != Write {
			return fmt.Errorf("%w: the right %v; want read or write", ErrBadSession, right)
		}
		if err := c.Allow(id, right); err != nil {
			return err
		}
	}
	return nil
}

func isSessionID(id string) bool {
	return id != "" && len(id) <= maxSessionID && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-_.:", c)
	})
}

// parse reads a token that was signed here or by another server of the library, and has not
// expired. ErrUnauthenticated.
func (r *Registry) parse(ctx context.Context, token string) (*claims, error) {
	var out claims
	var unavailable error
	_, err := jwt.ParseWithClaims(token, &out, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		key, err := r.verifying(ctx, kid)
		if err != nil && !errors.Is(err, ErrUnauthenticated) {
			unavailable = err
		}
		return key, err
	}, jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithAudience(r.store.Info().ID),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(r.opts.Now), jwt.WithStrictDecoding())
	if unavailable != nil {
		return nil, unavailable
	}
	if err != nil || !isPlain(out.ID) || !isPlain(out.Subject) || !isSessionID(out.Session) {
		return nil, ErrUnauthenticated
	}
	return &out, nil
}

// tokenCaller returns the source of a request that has a token. ErrUnauthenticated.
func (r *Registry) tokenCaller(ctx context.Context, token string) (*Caller, error) {
	t, err := r.parse(ctx, token)
	if err != nil {
		return nil, err
	}
	e, err := r.find(ctx, keyPath(t.Subject))
	if err != nil {
		return nil, err
	}
	_, revoked := r.entry(revokedPath(t.ID)).value.(revocation)
	key, ok := e.value.(Key)
	if revoked || !ok || !key.Counts(r.opts.Now()) {
		return nil, ErrUnauthenticated
	}
	grants := map[string]Right{}
	for id, right := range t.Grants { // never more than the key has now
		grants[id] = min(right, Write, max(key.Everywhere, key.Grants[id]))
	}
	return &Caller{
		Library: r.library, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: key.ID}, Session: t.Session,
		Grants: grants, Key: &key, Token: t.ID, Until: t.ExpiresAt.Time,
		Budget: r.budgets.of(t.ID, t.MaxCalls, t.MaxBytes, t.ExpiresAt.Time, r.opts.Now()),
	}, nil
}

// Revoke has a token count no more, at every server of the library within 5 s. Only a caller
// with the key that made it may, or an admin. An error of kind not found says that it is no
// token that counts.
func (r *Registry) Revoke(ctx context.Context, by *Caller, token string) error {
	t, err := r.parse(ctx, token)
	if errors.Is(err, ErrUnauthenticated) {
		return fmt.Errorf("the token: %w", versionlog.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if by.Key == nil || by.Key.ID != t.Subject && !by.IsAdmin() || by.Token != "" && by.Token != t.ID {
		return fmt.Errorf("the token: %w", versionlog.ErrNotFound)
	}
	r.removeExpired(ctx, r.opts.Now())
	return r.write(ctx, revokedPath(t.ID), revocation{t.ExpiresAt.Time}, versionlog.ExpectAny())
}
