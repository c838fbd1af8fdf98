package cache

import (
	"errors"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
)

// TestForget: nothing is served that the next store has erased, neither from memory nor
// from disk, in this process or in another one with the directory; and what a fetch brings
// that was under way is not kept.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	next := &counting{Store: memcas.New()}
	c, other := newCache(t, next, &Options{Dir: dir}), newCache(t, next, &Options{Dir: dir, MemoryBytes: -1})
	d, stays := put(t, next, []byte("canary")), put(t, next, []byte("stays"))
	for _, one := range []*Cache{c, other} {
		wantData(t, one, d, []byte("canary"))
		wantData(t, one, stays, []byte("stays"))
	}
	c.disk.close()
	if _, ok := Lookup(dir, d); !ok {
		t.Fatal("nothing is on disk")
	}
	erase := func() error { return errors.Join(next.Delete(t.Context(), d), c.Forget()) }
	if err := erase(); err != nil {
		t.Fatal(err)
	}
	if _, ok := Lookup(dir, d); ok {
		t.Error("it is still on disk")
	}
	for _, one := range []*Cache{c, other} {
		if _, err := one.Get(t.Context(), d); !errors.Is(err, cas.ErrNotFound) {
			t.Errorf("Get of what was erased: %v", err)
		}
		wantData(t, one, stays, []byte("stays"))
	}

	put(t, next, []byte("canary"))
	data := []byte("canary")
	c.next = late{next, func() ([]byte, error) { return data, erase() }}
	if got, err := c.Get(t.Context(), d); err != nil || string(got) != "canary" {
		t.Fatalf("Get: %q, %v", got, err)
	}
	c.next = next
	if _, err := c.Get(t.Context(), d); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("what a fetch has brought late is kept: %v", err)
	}
}
