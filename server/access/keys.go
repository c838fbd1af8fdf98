package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mneme/errkind"
	"mneme/memory"
	"mneme/versionlog"
)

// ErrReachesNothing says that a new key would have no right to any store.
var ErrReachesNothing = errkind.New(errkind.Invalid, "the key reaches nothing: it has a right neither in a store nor in all")

var errLabel = errkind.New(errkind.Invalid, "the label of a key")

// CreateKey makes a key of a label, rights and an end (zero: none), and returns its secret,
// which is not kept and cannot be shown again.
func (r *Registry) CreateKey(ctx context.Context, k Key) (key Key, secret string, err error) {
	if err := k.check(); err != nil {
		return k, "", err
	}
	key = Key{ID: keyPrefix + versionlog.RandomID(10), Label: k.Label, Everywhere: k.Everywhere, Grants: k.Grants, Created: r.opts.Now().UTC(), Expires: k.Expires}
	secret = key.newSecret()
	return key, secret, r.write(ctx, keyPath(key.ID), key, versionlog.ExpectAbsent())
}

// check returns why such a key must not be made.
func (k *Key) check() error {
	switch {
	case k.Label == "" || len(k.Label) > maxLabel:
		return fmt.Errorf("%w has %d bytes; want 1 to %d", errLabel, len(k.Label), maxLabel)
	case !utf8.ValidString(k.Label) || strings.ContainsFunc(k.Label, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }):
		return fmt.Errorf("%w has control or format characters; want others", errLabel)
	}
	most := k.Everywhere
	for _, right := range k.Grants {
		most = max(most, right)
	}
	if most == None {
		return ErrReachesNothing
	}
	return nil
}

// keyCaller returns the source of a request that has a key's secret. ErrUnauthenticated
// does not say why the secret is not accepted.
func (r *Registry) keyCaller(ctx context.Context, secret string) (*Caller, error) {
	id, _, whole := strings.Cut(strings.TrimPrefix(secret, secretPrefix), "_")
	if !whole || !isPlain(id) {
		return nil, ErrUnauthenticated
	}
	e, err := r.find(ctx, keyPath(keyPrefix+id))
	if err != nil {
		return nil, err
	}
	key, ok := e.value.(Key)
	sum := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(key.SHA256)) == 1
	now := r.opts.Now().UTC()
	if !ok || !same || !key.Counts(now) {
		return nil, ErrUnauthenticated
	}
	r.noteUse(ctx, key, e.version.ID, now)
	return r.InTheNameOf(&key)
}

// noteUse notes the hour in which a key was used, concurrently with the request. If that
// fails, a use a minute later tries again.
func (r *Registry) noteUse(ctx context.Context, key Key, version string, now time.Time) {
	hour := now.Truncate(time.Hour)
	r.mu.Lock()
	due := key.LastUsed.Before(hour) && now.Sub(r.noted[key.ID]) > time.Minute && !r.store.ReadOnly() && !r.closed
	if due {
		r.noted[key.ID] = now
		r.notes.Add(1)
	}
	r.mu.Unlock()
	if !due {
		return
	}
	key.LastUsed = hour
	go func() {
		defer r.notes.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = recovered(func() error { return r.write(ctx, keyPath(key.ID), key, versionlog.ExpectVersion(version)) })
	}()
}

// InTheNameOf returns the source of requests that a key counts for: ErrUnauthenticated where it counts
// no more.
func (r *Registry) InTheNameOf(key *Key) (*Caller, error) {
	if !key.Counts(r.opts.Now()) {
		return nil, ErrUnauthenticated
	}
	return &Caller{
		Library: r.library, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: key.ID},
		Everywhere: key.Everywhere, Grants: key.Grants, Until: key.Expires, Key: key,
	}, nil
}

// Key returns a key by its id. versionlog.ErrNotFound.
func (r *Registry) Key(ctx context.Context, id string) (Key, error) {
	key, _, err := r.key(ctx, id)
	return key, err
}

func (r *Registry) key(ctx context.Context, id string) (Key, versionlog.Version, error) {
	if !isPlain(id) {
		return Key{}, versionlog.Version{}, fmt.Errorf("key %.80q: %w", id, versionlog.ErrNotFound)
	}
	v, data, err := r.store.Read(ctx, keyPath(id))
	if errors.Is(err, versionlog.ErrNotFound) {
		return Key{}, v, fmt.Errorf("key %s: %w", id, versionlog.ErrNotFound)
	}
	if err != nil {
		return Key{}, v, err
	}
	value, err := decode(keyPath(id), data)
	key, _ := value.(Key)
	return key, v, err
}

// Keys returns all keys, the oldest first.
func (r *Registry) Keys(ctx context.Context) (keys []Key, err error) {
	for v, err := range r.store.Heads(ctx, keysDir) {
		if err != nil {
			return nil, err
		}
		data, err := r.store.Content(ctx, v)
		if err != nil {
			return nil, err
		}
		value, err := decode(v.Path, data)
		key := value.(Key)
		if err != nil { // which does not count
			key = Key{ID: idOf(v.Path), Label: "(cannot be read)", Created: v.Time, Disabled: true}
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return keys, nil
}

// SetDisabled says whether a key counts. versionlog.ErrNotFound.
func (r *Registry) SetDisabled(ctx context.Context, id string, disabled bool) (Key, error) {
	return r.change(ctx, id, func(key *Key) { key.Disabled = disabled })
}

// Rotate gives a key another secret, and returns that; the one before counts no more.
// versionlog.ErrNotFound.
func (r *Registry) Rotate(ctx context.Context, id string) (key Key, secret string, err error) {
	key, err = r.change(ctx, id, func(key *Key) { secret = key.newSecret() })
	return key, secret, err
}

func (r *Registry) change(ctx context.Context, id string, do func(*Key)) (Key, error) {
	for {
		key, v, err := r.key(ctx, id)
		if err != nil {
			return key, err
		}
		do(&key)
		if err := r.write(ctx, keyPath(id), key, versionlog.ExpectVersion(v.ID)); !errors.Is(err, versionlog.ErrConflict) {
			return key, err
		}
	}
}

// DeleteKey removes a key. Its id stays in the history of its writes.
// versionlog.ErrNotFound.
func (r *Registry) DeleteKey(ctx context.Context, id string) error {
	if !isPlain(id) {
		return fmt.Errorf("key %.80q: %w", id, versionlog.ErrNotFound)
	}
	err := memory.AbsentAsNotFound(r.remove(ctx, keyPath(id)))
	if errors.Is(err, versionlog.ErrNotFound) {
		return fmt.Errorf("key %s: %w", id, versionlog.ErrNotFound)
	}
	return err
}
