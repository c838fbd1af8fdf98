package castest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"mneme/cas"
)

func testRoundTrip(t *testing.T, s cas.Store) {
	for name, data := range samples() {
		t.Run(name, func(t *testing.T) {
			wantHas(t, s, cas.Sum(data), false)
			d := put(t, s, data)
			wantHas(t, s, d, true)
			wantData(t, s, d, data)
			wantData(t, s, d, data)
		})
	}
}

func testNotFound(t *testing.T, s cas.Store) {
	check := func(t *testing.T) {
		for _, d := range []cas.Digest{{}, cas.Sum([]byte("never put")), cas.Sum(nil)} {
			wantGetError(t, s, d, cas.ErrNotFound)
			wantHas(t, s, d, false)
		}
	}
	t.Run("empty store", check)
	put(t, s, []byte("something else"))
	t.Run("other blob", check)
}

func testPutAgain(t *testing.T, s cas.Store) {
	for _, data := range samples() {
		put(t, s, data)
		put(t, s, data)
		wantData(t, s, put(t, s, data), data)
	}
}

func testPutKeepsNoSlice(t *testing.T, s cas.Store) {
	data := []byte("written once")
	want := bytes.Clone(data)
	d := put(t, s, data)
	clear(data)
	wantData(t, s, d, want)
}

func testCancelled(t *testing.T, s cas.Store) {
	stored := put(t, s, []byte("stored"))
	other := []byte("other")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for want, ctx := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: expired} {
		if _, err := s.Put(ctx, other); !errors.Is(err, want) {
			t.Errorf("Put: error %v, want %v", err, want)
		}
		if data, err := s.Get(ctx, stored); data != nil || !errors.Is(err, want) {
			t.Errorf("Get: %d bytes, error %v, want %v", len(data), err, want)
		}
		if _, err := s.Has(ctx, stored); !errors.Is(err, want) {
			t.Errorf("Has: error %v, want %v", err, want)
		}
		if l, ok := s.(cas.Lister); ok {
			if _, err := list(ctx, l); !errors.Is(err, want) {
				t.Errorf("List: error %v, want %v", err, want)
			}
		}
		if dd, ok := s.(cas.Deleter); ok {
			if err := dd.Delete(ctx, stored); !errors.Is(err, want) {
				t.Errorf("Delete: error %v, want %v", err, want)
			}
		}
	}
	wantHas(t, s, cas.Sum(other), false)
	wantData(t, s, stored, []byte("stored"))
}

// testReopen checks that what was put is there for a process that comes later,
// and at once for one that is there already.
func (c Config) testReopen(t *testing.T, s cas.Store) {
	early := c.Reopen(t, s)
	for _, data := range samples() {
		wantGetError(t, early, cas.Sum(data), cas.ErrNotFound)
		d := put(t, s, data)
		wantHas(t, early, d, true)
		wantData(t, early, d, data)
	}
	late := c.Reopen(t, s)
	for _, data := range samples() {
		wantHas(t, late, cas.Sum(data), true)
		wantData(t, late, cas.Sum(data), data)
		wantData(t, s, put(t, late, data), data)
	}
}
