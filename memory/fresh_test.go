package memory_test

import (
	"errors"
	"testing"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/forget"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestBlobsAreFresh: a caller that asks for contents by their digests gets none that
// another process has erased, though a cache had it, also if the cache got it while the
// redaction was under way.
func TestBlobsAreFresh(t *testing.T) {
	ctx := t.Context()
	log, blobs := memlog.New(nil), memcas.New()
	c, err := cache.New(blobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	serves := memory.NewLibrary(log, func(string) (cas.Store, error) { return c, nil })
	elsewhere := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := elsewhere.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := elsewhere.Open(ctx, info.ID, person)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) versionlog.Version {
		t.Helper()
		v, err := st.Write(ctx, "/a", []byte(text), versionlog.ExpectAny())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	get := func(text string) error {
		t.Helper()
		from, err := serves.Blobs(ctx, info.ID)
		if err == nil {
			_, err = from.Get(ctx, cas.Sum([]byte(text)))
		}
		return err
	}
	first, second := write("canary"), write("other canary")
	write("clean")
	for _, text := range []string{"canary", "other canary", "clean"} {
		if err := get(text); err != nil {
			t.Fatal(err)
		}
	}
	for text, v := range map[string]versionlog.Version{"canary": first, "other canary": second} {
		if _, err := forget.Redact(ctx, nil, st, &forget.Request{Versions: []string{v.ID}, Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		if err := get(text); !errors.Is(err, cas.ErrNotFound) {
			t.Errorf("what was erased: %v", err)
		}
		if _, err := blobs.Put(ctx, []byte(text)); err != nil { // as if it was to be erased yet
			t.Fatal(err)
		}
		if err := get(text); err != nil {
			t.Fatal(err)
		}
		if err := blobs.Delete(ctx, cas.Sum([]byte(text))); err != nil {
			t.Fatal(err)
		}
		if err := get(text); !errors.Is(err, cas.ErrNotFound) {
			t.Errorf("what was erased while somebody read it: %v", err)
		}
	}
	if err := get("clean"); err != nil {
		t.Error(err)
	}
	if err := elsewhere.DeleteStore(ctx, info.ID); err != nil {
		t.Fatal(err)
	}
	if err := get("clean"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("of a store that is gone: %v", err)
	}
}
