package access

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"mneme/versionlog"
)

// TestTokens goes through the life of a token: it counts for its stores at every server, until it
// expires, is revoked, or its key counts no more, and has never more rights than its key.
func TestTokens(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	a, b := w.open(), w.open()
	key, secret, err := a.CreateKey(ctx, Key{Label: "agents", Grants: map[string]Right{w.store.ID: Admin, "memstore_docs": Read}})
	w.must(err)
	keyed := w.counts(a, secret, true)
	make := func(s Session) string {
		t.Helper()
		token, _, _, err := a.NewToken(ctx, keyed, s)
		w.must(err)
		return token
	}
	token := make(Session{ID: "sess-1", Grants: map[string]Right{w.store.ID: Write}, MaxCalls: 2})
	c := w.counts(b, token, true)
	if c.Session != "sess-1" || c.Actor.ID != key.ID || c.Right(w.store.ID) != Write || c.Right("memstore_docs") != None || !c.Until.Equal(w.now.Add(time.Hour)) || c.IsAdmin() {
		t.Errorf("%+v", c)
	}
	w.must(c.Budget.Take(2, 1<<40))
	if c := w.counts(b, token, true); c.Budget.Take(1, 0) == nil {
		t.Error("the budget is whole again for another request")
	}
	for name, s := range map[string]Session{
		"a right that is not there": {Grants: map[string]Right{"memstore_docs": Write}},
		"admin":                     {Grants: map[string]Right{w.store.ID: Admin}},
		"another store":             {Grants: map[string]Right{"memstore_x": Read}},
		"no store":                  {},
		"too long":                  {Grants: map[string]Right{w.store.ID: Read}, Expires: w.now.Add(2 * time.Hour)},
		"the past":                  {Grants: map[string]Right{w.store.ID: Read}, Expires: w.now},
		"an id with a space":        {Grants: map[string]Right{w.store.ID: Read}, ID: "a b"},
	} {
		if _, _, _, err := a.NewToken(ctx, keyed, s); err == nil {
			t.Errorf("%s: a token", name)
		}
	}
	if _, _, _, err := a.NewToken(ctx, c, Session{Grants: map[string]Right{w.store.ID: Read}}); !errors.Is(err, ErrDenied) {
		t.Errorf("a token makes another: %v", err)
	}

	w.must(a.Revoke(ctx, keyed, token))
	w.counts(a, token, false)
	watched, cancel := b.Watch(ctx, token)
	defer cancel()
	<-watched.Done()
	w.counts(b, token, false)

	token = make(Session{Grants: map[string]Right{w.store.ID: Write}})
	if c := w.counts(a, token, true); !strings.HasPrefix(c.Session, "sess_") || c.Budget != nil {
		t.Errorf("%+v", c)
	}
	_, err = a.change(ctx, key.ID, func(k *Key) { k.Grants = map[string]Right{w.store.ID: Read} })
	w.must(err)
	if c := w.counts(a, token, true); c.Right(w.store.ID) != Read {
		t.Errorf("%+v, with a key that may only read by now", c)
	}
	_, err = a.SetDisabled(ctx, key.ID, true)
	w.must(err)
	w.counts(a, token, false)
	_, err = a.SetDisabled(ctx, key.ID, false)
	w.must(err)
	w.counts(a, token, true)
	w.now = w.now.Add(time.Hour)
	w.counts(a, token, false)

	// A server that signs with a new key removes keys and revocations that are no longer
	// needed.
	w.now = w.now.Add(27 * time.Hour)
	make(Session{Grants: map[string]Right{w.store.ID: Read}})
	var left []string
	for v, err := range a.store.Heads(ctx, "/") {
		w.must(err)
		left = append(left, v.Path)
	}
	if len(left) != 2 || !strings.HasPrefix(left[1], signingDir) {
		t.Errorf("left: %q", left)
	}
}

// TestForgedTokens has no token count that another has signed or changed.
func TestForgedTokens(t *testing.T) {
	w, other, ctx := newWorld(t), newWorld(t), t.Context()
	a, elsewhere := w.open(), other.open()
	key, secret, err := a.CreateKey(ctx, Key{Label: "agents", Everywhere: Admin})
	w.must(err)
	grants := map[string]Right{w.store.ID: Read}
	token, _, _, err := a.NewToken(ctx, w.counts(a, secret, true), Session{Grants: grants})
	w.must(err)
	w.counts(elsewhere, token, false)
	parts := strings.Split(token, ".")
	var good claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &good); err != nil {
		t.Fatal(err)
	}
	kid, private, err := a.signing(ctx)
	w.must(err)
	_, foreign, err := ed25519.GenerateKey(nil)
	w.must(err)
	sign := func(method jwt.SigningMethod, kid string, with any, edit func(*claims)) string {
		t.Helper()
		c := good
		edit(&c)
		forged := jwt.NewWithClaims(method, &c)
		forged.Header["kid"] = kid
		text, err := forged.SignedString(with)
		w.must(err)
		return text
	}
	public := private.Public().(ed25519.PublicKey)
	same := func(*claims) {}
	w.counts(a, sign(jwt.SigningMethodEdDSA, kid, private, same), true)
	wider := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + key.ID + `","sid":"x","stores":{"` + w.store.ID + `":"write"},"exp":9999999999}`))
	for name, forged := range map[string]string{
		"cut":            token[:len(token)-1],
		"no signature":   parts[0] + "." + parts[1] + ".",
		"other claims":   parts[0] + "." + wider + "." + parts[2],
		"alg none":       sign(jwt.SigningMethodNone, kid, jwt.UnsafeAllowNoneSignatureType, same),
		"HMAC of public": sign(jwt.SigningMethodHS256, kid, []byte(public), same),
		"a foreign key":  sign(jwt.SigningMethodEdDSA, kid, foreign, same),
		"unknown kid":    sign(jwt.SigningMethodEdDSA, "other", private, same),
		"kid is a path":  sign(jwt.SigningMethodEdDSA, "../keys/"+key.ID, private, same),
		"no audience":    sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.Audience = nil }),
		"other audience": sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.Audience = jwt.ClaimStrings{"memstore_x"} }),
		"no expiry":      sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.ExpiresAt = nil }),
		"no session":     sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.Session = "" }),
		"no id":          sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.ID = "" }),
		"no key":         sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.Subject = "apikey_x" }),
		"dots":           "..",
	} {
		if _, err := a.Caller(ctx, forged); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := w.counts(a, sign(jwt.SigningMethodEdDSA, kid, private, func(c *claims) { c.Grants = map[string]Right{w.store.ID: Admin} }), true); c.Right(w.store.ID) != Write {
		t.Errorf("a token has the right %v", c.Right(w.store.ID))
	}
	if err := a.Revoke(ctx, &Caller{Key: &Key{ID: "apikey_other"}}, token); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("another key revokes it: %v", err)
	}
}

// FuzzToken has no text count that is no token, and none panic.
func FuzzToken(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJFZERTQSIsImtpZCI6IngifQ.e30.AA")
	f.Add("mneme_x_y")
	var r *Registry
	f.Fuzz(func(t *testing.T, credential string) {
		if r == nil {
			r = newWorld(t).open()
		}
		if _, err := r.Caller(t.Context(), credential); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%q: %v", credential, err)
		}
	})
}

// TestTokensAreBounded: one key makes so many tokens within an hour, and others go on; what was
// revoked is removed when it has expired.
func TestTokensAreBounded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	a := w.open()
	grants := map[string]Right{w.store.ID: Read}
	caller := func() *Caller {
		_, secret, err := a.CreateKey(ctx, Key{Label: "agents", Everywhere: Admin})
		w.must(err)
		return w.counts(a, secret, true)
	}
	one, other := caller(), caller()
	token, _, _, err := a.NewToken(ctx, one, Session{Grants: grants})
	w.must(err)
	w.must(a.Revoke(ctx, one, token))
	for range maxTokens - 1 {
		if !a.minted.take(one.Key.ID, w.now) {
			t.Fatal("fewer tokens than are allowed")
		}
	}
	if _, _, _, err := a.NewToken(ctx, one, Session{Grants: grants}); !errors.Is(err, ErrTooManyTokens) {
		t.Errorf("one token more: %v", err)
	}
	_, _, _, err = a.NewToken(ctx, other, Session{Grants: grants})
	w.must(err)
	w.now = w.now.Add(2*MaxTokenAge + time.Minute)
	token, _, _, err = a.NewToken(ctx, one, Session{Grants: grants})
	w.must(err)
	w.must(a.Revoke(ctx, one, token))
	revoked := 0
	for v, err := range a.store.Heads(ctx, revokedDir) {
		w.must(err)
		if !v.IsDir() {
			revoked++
		}
	}
	if revoked != 1 {
		t.Errorf("%d revocations are left, want that of the token that has not expired", revoked)
	}
	known := 0
	a.mu.Lock()
	defer a.mu.Unlock()
	for path := range a.entries {
		if strings.HasPrefix(path, revokedDir) {
			known++
		}
	}
	if known != 1 {
		t.Errorf("%d revocations are in memory", known)
	}
}

// TestOnceIsSecret: another client cannot compute the key of a commit.
func TestOnceIsSecret(t *testing.T) {
	mine := &Caller{Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "apikey_1"}, Session: "s", Key: &Key{ID: "apikey_1", SHA256: "11"}}
	theirs := *mine
	theirs.Key = &Key{ID: "apikey_1", SHA256: "22"}
	a, b := mine.Once("name", "body"), theirs.Once("name", "body")
	if a.Key == b.Key || a.request == b.request {
		t.Error("the hashes do not depend on the secret of the key")
	}
	if again := mine.Once("name", "body"); again != a {
		t.Error("the same request has another name")
	}
}
