package castest

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"mneme/cas"
)

const (
	goroutines = 16
	blobs      = 32
)

// testManyDigests has every goroutine put all blobs, each starting at another,
// and read each back at once.
func testManyDigests(t *testing.T, s cas.Store) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range blobs {
				data := blob((g*blobs/goroutines + i) % blobs)
				d, err := s.Put(t.Context(), data)
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				got, err := s.Get(t.Context(), d)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("Get after Put: %q, %v, want %q", got, err, data)
				}
			}
		})
	}
	wg.Wait()
	for i := range blobs {
		wantData(t, s, cas.Sum(blob(i)), blob(i))
	}
}

// testOneDigest puts and reads one blob from many goroutines: a reader sees
// nothing or all of it, never a part.
func testOneDigest(t *testing.T, s cas.Store) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<13)
	d := cas.Sum(data)
	var wg sync.WaitGroup
	for range goroutines / 2 {
		wg.Go(func() {
			for range blobs / 4 {
				if _, err := s.Put(t.Context(), data); err != nil {
					t.Errorf("Put: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range blobs / 4 {
				got, err := s.Get(t.Context(), d)
				if err == nil && !bytes.Equal(got, data) {
					t.Errorf("Get returned %d bytes that are not the blob", len(got))
				}
				if err != nil && !errors.Is(err, cas.ErrNotFound) {
					t.Errorf("Get: %v", err)
				}
			}
		})
	}
	wg.Wait()
	wantData(t, s, d, data)
}

// testDeleteWhilePutting deletes a blob while it is put and read: every Get
// returns it whole or says that it is not there.
func testDeleteWhilePutting(t *testing.T, s cas.Store) {
	data := []byte("here and gone")
	var wg sync.WaitGroup
	for range goroutines / 4 {
		wg.Go(func() {
			for range blobs {
				if _, err := s.Put(t.Context(), data); err != nil {
					t.Errorf("Put: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range blobs {
				got, err := s.Get(t.Context(), cas.Sum(data))
				if err == nil && !bytes.Equal(got, data) || err != nil && !errors.Is(err, cas.ErrNotFound) {
					t.Errorf("Get: %q, %v", got, err)
				}
			}
		})
		wg.Go(func() {
			for range blobs {
				if err := s.(cas.Deleter).Delete(t.Context(), cas.Sum(data)); err != nil {
					t.Errorf("Delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.(cas.Deleter).Delete(t.Context(), cas.Sum(data)); err != nil {
		t.Fatal(err)
	}
	wantGetError(t, s, cas.Sum(data), cas.ErrNotFound)
	wantData(t, s, put(t, s, data), data)
}
