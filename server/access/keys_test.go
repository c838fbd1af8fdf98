package access

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/secrets"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// world is a library with a store, and its credentials as one or several servers see them.
type world struct {
	*testing.T
	lib   *memory.Library
	store versionlog.Store
	now   time.Time
}

func newWorld(t *testing.T) *world {
	blobs := memcas.New()
	w := &world{T: t, lib: memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })}
	w.now = time.Date(2026, 11, 27, 10, 30, 0, 0, time.UTC)
	var err error
	w.store, err = w.lib.CreateStore(t.Context(), "notes", nil)
	w.must(err)
	return w
}

// open returns the credentials of one server.
func (w *world) open() *Registry {
	r, err := OpenRegistry(w.Context(), w.lib, &RegistryOptions{
		Author: &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}},
		Now:    func() time.Time { return w.now },
	})
	w.must(err)
	w.Cleanup(r.Close)
	return r
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// counts checks whether a credential counts.
func (w *world) counts(r *Registry, credential string, want bool) *Caller {
	w.Helper()
	c, err := r.Caller(w.Context(), credential)
	if (err == nil) != want || !want && !errors.Is(err, ErrUnauthenticated) {
		w.Fatalf("%v, want that it counts: %v", err, want)
	}
	return c
}

// TestKeys goes through the life of a key: it counts while it is there, enabled, not expired
// and not rotated, and nothing that the library keeps has its secret.
func TestKeys(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	r := w.open()
	counts := func(secret string, want bool) *Caller { t.Helper(); return w.counts(r, secret, want) }
	key, secret, err := r.CreateKey(ctx, Key{Label: "ci", Grants: map[string]Right{w.store.ID: Write}, Expires: w.now.Add(3 * time.Hour)})
	w.must(err)
	c := counts(secret, true)
	if c.Actor.ID != key.ID || c.Right(w.store.ID) != Write || c.Right("memstore_other") != None || c.IsAdmin() {
		t.Errorf("%+v", c)
	}
	r.notes.Wait()
	if all, err := r.Keys(ctx); err != nil || len(all) != 1 || !all[0].LastUsed.Equal(w.now.Truncate(time.Hour)) || all[0].Fingerprint != key.Fingerprint {
		t.Errorf("%+v, %v", all, err)
	}
	for _, other := range []string{"", "mneme_", secret[:len(secret)-1], secret + "0", "x" + secret, "mneme_../x_y", "mneme_\x00_y", secretPrefix + strings.Repeat("0", 16) + "_x", strings.Repeat(secret, 200)} {
		counts(other, false)
	}
	_, err = r.SetDisabled(ctx, key.ID, true)
	w.must(err)
	counts(secret, false)
	_, err = r.SetDisabled(ctx, key.ID, false)
	w.must(err)
	counts(secret, true)
	_, second, err := r.Rotate(ctx, key.ID)
	w.must(err)
	counts(secret, false)
	counts(second, true)
	for c, err := range r.store.Commits(ctx, 0) {
		w.must(err)
		for _, v := range c.Versions {
			data, err := r.store.Content(ctx, v)
			if w.must(err); strings.Contains(string(data), secret[30:]) || strings.Contains(string(data), second[30:]) {
				t.Errorf("%s has a secret: %s", v.Path, data)
			}
		}
	}
	w.now = w.now.Add(3 * time.Hour)
	counts(second, false)

	_, admin, err := r.CreateKey(ctx, Key{Label: "admin", Everywhere: Admin})
	w.must(err)
	c = counts(admin, true)
	if _, err := c.Open(ctx, r.store.Info().ID, Read); !errors.Is(err, versionlog.ErrNotFound) || !c.IsAdmin() {
		t.Errorf("an admin opens the keys: %v", err)
	}
	for s, err := range c.Stores(ctx, "") {
		if w.must(err); s.ID != w.store.ID {
			t.Errorf("an admin sees %s", s.Slug)
		}
	}
	w.must(r.DeleteKey(ctx, key.ID))
	if _, err := r.Key(ctx, key.ID); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := r.DeleteKey(ctx, "../x"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("%v", err)
	}
	for _, label := range []string{"", strings.Repeat("x", 101)} {
		if _, _, err := r.CreateKey(ctx, Key{Label: label, Everywhere: Read}); err == nil {
			t.Errorf("a key of the label %q", label)
		}
	}
}

// TestServersAgree has what one server changes count at another: a key that the other has never
// seen at its first use, and one that counts no more as soon as the other follows.
func TestServersAgree(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	a, b := w.open(), w.open()
	key, secret, err := a.CreateKey(ctx, Key{Label: "x", Everywhere: Read})
	w.must(err)
	w.counts(b, secret, true)
	watched, cancel := b.Watch(ctx, secret)
	defer cancel()
	_, err = a.SetDisabled(ctx, key.ID, true)
	w.must(err)
	<-watched.Done()
	if !errors.Is(context.Cause(watched), ErrUnauthenticated) {
		t.Error(context.Cause(watched))
	}
	w.counts(b, secret, false)
	expiring, second, err := a.CreateKey(ctx, Key{Label: "y", Everywhere: Read, Expires: w.now.Add(time.Millisecond)})
	w.must(err)
	w.now = w.now.Add(time.Second)
	watched, cancel = b.Watch(ctx, second)
	defer cancel()
	<-watched.Done()
	w.must(a.DeleteKey(ctx, expiring.ID))
	r, err := OpenRegistry(ctx, w.lib, nil)
	w.must(err)
	r.Close()
	w.counts(r, secret, false)
}

// TestLostStore has no credential count from memory while the store cannot be followed.
func TestLostStore(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	a, b := w.open(), w.open()
	key, secret, err := a.CreateKey(ctx, Key{Label: "x", Everywhere: Read})
	w.must(err)
	w.counts(b, secret, true)
	b.stop()
	<-b.done // it follows no more
	w.now = w.now.Add(maxUnconfirmed + time.Second)
	_, err = a.SetDisabled(ctx, key.ID, true)
	w.must(err)
	w.counts(b, secret, false)
}

// TestOtherHistory has no credential count that is only in a history which is no longer there.
func TestOtherHistory(t *testing.T) {
	w, other, ctx := newWorld(t), newWorld(t), t.Context()
	a, b := w.open(), other.open()
	key, secret, err := a.CreateKey(ctx, Key{Label: "x", Everywhere: Read})
	w.must(err)
	w.counts(a, secret, true)
	a.notes.Wait()
	_, err = a.SetDisabled(ctx, key.ID, true)
	w.must(err)
	w.must(a.look(ctx))
	a.Close()
	a.store = b.store // a backup in which there is less
	w.must(a.look(ctx))
	w.counts(a, secret, false)
	if len(a.entries) != 0 {
		t.Errorf("left: %v", a.entries)
	}
}

// TestKeyOfLaterMneme has no key count that says more than is known here, and leaves it as it is.
func TestKeyOfLaterMneme(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	r := w.open()
	key, secret, err := r.CreateKey(ctx, Key{Label: "x", Everywhere: Read})
	w.must(err)
	w.counts(r, secret, true)
	r.notes.Wait()
	_, data, err := r.store.Read(ctx, keyPath(key.ID))
	w.must(err)
	later := strings.Replace(string(data), "{", `{"networks":["10.0.0.0/8"],`, 1)
	_, err = r.store.Write(ctx, keyPath(key.ID), []byte(later), versionlog.ExpectAny())
	w.must(err)
	w.counts(w.open(), secret, false)
	if all, err := r.Keys(ctx); err != nil || len(all) != 1 || all[0].ID != key.ID || !all[0].Disabled {
		t.Errorf("%+v, %v", all, err)
	}
	w.must(r.DeleteKey(ctx, key.ID))
}

// TestKeyIsKnown: a store that refuses credentials, and a scan, know the keys that are made here.
func TestKeyIsKnown(t *testing.T) {
	w := newWorld(t)
	_, secret, err := w.open().CreateKey(t.Context(), Key{Label: "agents", Everywhere: Read})
	w.must(err)
	found := secrets.Find([]byte("the key is "+secret+".\n"), 2)
	if len(found) != 1 || found[0].Rule != "mneme-key" || found[0].Length != len(secret) {
		t.Errorf("found: %+v", found)
	}
}
