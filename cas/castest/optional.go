package castest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
)

// list collects a walk. It counts how often each digest was seen.
func list(ctx context.Context, l cas.Lister) (map[cas.Digest]int, error) {
	seen := make(map[cas.Digest]int)
	for d, err := range l.List(ctx) {
		if err != nil {
			return seen, err
		}
		seen[d]++
	}
	return seen, nil
}

func wantList(t *testing.T, s cas.Store, want map[cas.Digest]int) {
	t.Helper()
	got, err := list(t.Context(), s.(cas.Lister))
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func testList(t *testing.T, s cas.Store) {
	want := make(map[cas.Digest]int)
	wantList(t, s, want)
	for i := range blobs {
		want[put(t, s, blob(i))] = 1
		put(t, s, blob(i))
	}
	wantList(t, s, want)
	t.Run("stopped early", func(t *testing.T) {
		n := 0
		for range s.(cas.Lister).List(t.Context()) {
			if n++; n == 2 {
				break
			}
		}
	})
	t.Run("cancelled midway", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		n := 0
		for _, err := range s.(cas.Lister).List(ctx) {
			cancel()
			n, last = n+1, err
		}
		if last == nil || n > blobs {
			t.Errorf("walk of a cancelled context ended after %d with %v", n, last)
		}
	})
	if deleter, ok := s.(cas.Deleter); ok {
		d := cas.Sum(blob(0))
		if err := deleter.Delete(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		delete(want, d)
		wantList(t, s, want)
	}
}

func testDelete(t *testing.T, s cas.Store) {
	deleter := s.(cas.Deleter)
	for name, data := range samples() {
		t.Run(name, func(t *testing.T) {
			other := put(t, s, []byte("stays"))
			d := cas.Sum(data)
			if err := deleter.Delete(t.Context(), d); err != nil {
				t.Fatalf("Delete of what was never put: %v", err)
			}
			put(t, s, data)
			wantData(t, s, d, data)
			for range 2 {
				if err := deleter.Delete(t.Context(), d); err != nil {
					t.Fatalf("Delete: %v", err)
				}
				wantGetError(t, s, d, cas.ErrNotFound)
				wantHas(t, s, d, false)
			}
			wantData(t, s, other, []byte("stays"))
			wantData(t, s, put(t, s, data), data)
		})
	}
}
