package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
)

func TestOneFetchForManyReaders(t *testing.T) {
	for name, opts := range map[string]*Options{
		"memory": nil,
		"disk":   {MemoryBytes: -1, Dir: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			next := &counting{Store: memcas.New()}
			c := newCache(t, next, opts)
			data := sized(0, 100_000)
			d := put(t, next, data)
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { wantDataAsync(t, c, d, data) })
			}
			wg.Wait()
			if n := next.gets.Load(); n != 1 {
				t.Errorf("%d Gets of the next store for 100 readers", n)
			}
		})
	}
}

func wantDataAsync(t *testing.T, s cas.Store, d cas.Digest, want []byte) {
	if got, err := s.Get(t.Context(), d); err != nil || string(got) != string(want) {
		t.Errorf("Get: %d bytes, %v", len(got), err)
	}
}

// TestCancelledWaiter cancels the caller that began a fetch: the others get the
// blob from that very fetch.
func TestCancelledWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		next := &counting{Store: memcas.New(), hold: func(ctx context.Context, _ cas.Digest) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		data := []byte("data")
		d := put(t, next, data)
		c := &Cache{next: next}
		first, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			_, err := c.Get(first, d)
			errs <- err
		}()
		synctest.Wait()
		for range 3 {
			go wantDataAsync(t, c, d, data)
		}
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled caller: error %v", err)
		}
		close(release)
		synctest.Wait()
		c.Close()
		if n := next.gets.Load(); n != 1 {
			t.Errorf("%d Gets of the next store, want 1", n)
		}
	})
}

// TestLastWaiterCancels: a fetch without waiters ends, and the next caller starts a new
// one.
func TestLastWaiterCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := true
		cancelled, slow := make(chan struct{}), make(chan struct{})
		next := &counting{Store: memcas.New(), hold: func(ctx context.Context, _ cas.Digest) error {
			if !held {
				return nil
			}
			<-ctx.Done()
			close(cancelled)
			<-slow
			return ctx.Err()
		}}
		d := put(t, next, []byte("data"))
		c := &Cache{next: next}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := c.Get(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("Get: error %v", err)
		}
		<-cancelled
		held = false
		wantData(t, c, d, []byte("data"))
		close(slow)
		c.Close()
	})
}

func TestCloseEndsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		next := &counting{Store: memcas.New(), hold: func(ctx context.Context, _ cas.Digest) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return ctx.Err()
		}}
		d := put(t, next, []byte("data"))
		c := &Cache{next: next}
		go func() {
			if _, err := c.Get(t.Context(), d); !errors.Is(err, ErrClosed) {
				t.Errorf("Get: error %v, want ErrClosed", err)
			}
		}()
		synctest.Wait()
		c.Close()
		if !ended {
			t.Error("Close did not wait for the fetch")
		}
		synctest.Wait()
	})
}

func TestCloseAwaitsNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		next := &counting{Store: memcas.New(), hold: func(context.Context, cas.Digest) error {
			time.Sleep(time.Second)
			ended = true
			return nil
		}}
		d := put(t, next, []byte("data"))
		c := &Cache{next: next, near: true}
		go func() {
			if _, err := c.Get(t.Context(), d); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		c.Close()
		if !ended {
			t.Error("Close did not wait for the read")
		}
		if _, err := c.Get(t.Context(), d); !errors.Is(err, ErrClosed) {
			t.Errorf("Get: error %v, want ErrClosed", err)
		}
		synctest.Wait()
	})
}

func TestErrorIsNotKept(t *testing.T) {
	next := &counting{Store: memcas.New()}
	c := newCache(t, next, &Options{Dir: t.TempDir()})
	data := []byte("comes later")
	if _, err := c.Get(t.Context(), cas.Sum(data)); !errors.Is(err, cas.ErrNotFound) {
		t.Fatalf("Get: error %v, want ErrNotFound", err)
	}
	wantData(t, c, put(t, next, data), data)
}
