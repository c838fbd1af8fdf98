package kernelcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeKernel notes what it is told. A nil function takes everything in at once.
type fakeKernel struct {
	forget     func(inode uint64, pages bool) (known bool)
	forgetName func(dir uint64, name string)
	store      func(inode uint64, data []byte) (taken bool)

	mu   sync.Mutex
	told []string
}

func (k *fakeKernel) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, fmt.Sprintf(format, args...))
}

func (k *fakeKernel) want(t *testing.T, told ...string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.told, told) {
		t.Errorf("the kernel was told %q, want %q", k.told, told)
	}
}

func (k *fakeKernel) Forget(notices []Notice) (unknown bool) {
	for _, n := range notices {
		if n.Name == "" {
			k.note("%d %v", n.Inode, n.Pages)
			unknown = k.forget != nil && !k.forget(n.Inode, n.Pages) || unknown
			continue
		}
		k.note("%d/%s", n.Inode, n.Name)
		if k.forgetName != nil {
			k.forgetName(n.Inode, n.Name)
		}
	}
	return unknown
}

func (k *fakeKernel) Store(inode uint64, data []byte) (taken bool) {
	k.note("%d=%s", inode, data)
	return k.store == nil || k.store(inode, data)
}

// inOrder runs a test with a kernel that is told of each notice, on a clock that stands still
// while a goroutine works.
func inOrder(t *testing.T, test func(t *testing.T, k *fakeKernel, q *Notices)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, q := &fakeKernel{}, NewNotices()
		q.Run(k)
		defer q.Close()
		test(t, k, q)
	})
}

// settle returns when so much time has passed, and no goroutine works.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestNotices(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		if !q.Told(0) || q.Newest() != 0 || !q.Idle() {
			t.Error("the kernel has yet to be told what nobody has noticed")
		}
		numbers := []uint64{q.Content(7), q.Attributes(8), q.Name(9, "name"), q.Content(9)}
		if !slices.Equal(numbers, []uint64{1, 2, 3, 4}) || q.Newest() != 4 {
			t.Errorf("the notices have numbers %d, the newest is %d", numbers, q.Newest())
		}
		if err := q.Await(t.Context(), 0, 4); err != nil || !q.Told(4) || !q.Idle() {
			t.Errorf("awaited: %v; told: %v, idle: %v", err, q.Told(4), q.Idle())
		}
		slices.Sort(k.told) // the order among inodes is not kept
		k.want(t, "7 true", "8 false", "9 true", "9/name")
	})
}

// TestBatch: what is noticed of an inode while the kernel takes something in about it is told at
// once after that, without repetition.
func TestBatch(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		free := make(chan struct{})
		k.forgetName = func(_ uint64, name string) {
			if name == "held" {
				<-free
			}
		}
		q.Name(1, "held")
		synctest.Wait()
		for range 3 {
			q.Attributes(1)
			q.Name(1, "b")
			q.Content(1)
			q.Name(1, "a")
		}
		q.Attributes(2)
		q.Attributes(2)
		settle(time.Second)
		k.want(t, "1/held", "2 false")
		close(free)
		if err := q.Await(t.Context(), 0, q.Newest()); err != nil || !q.Idle() {
			t.Errorf("awaited: %v, idle: %v", err, q.Idle())
		}
		k.want(t, "1/held", "2 false", "1/b", "1/a", "1 true")
	})
}

// TestNoticesFollowTheChange makes the kernel ask at once for the things that it was told to
// forget: it gets their current state.
func TestNoticesFollowTheChange(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		var mount sync.Mutex
		var content int // guarded by mount
		c := Inode{Lookups: 1}
		var read []int
		k.forget = func(uint64, bool) bool {
			mount.Lock()
			defer mount.Unlock()
			read = append(read, content)
			return true
		}
		for i := range 100 {
			mount.Lock()
			content = i
			number := c.Outdate(q, 1)
			mount.Unlock()
			if err := q.Await(t.Context(), number-1, number); err != nil {
				t.Fatal(err)
			}
			if len(read) != i+1 || read[i] != i {
				t.Fatalf("the kernel has read %d, want %d", read, i)
			}
		}
	})
}

// TestHeldInode has a program hold an inode's lock: its notices wait, in one call of the kernel, and
// no others do.
func TestHeldInode(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		free := make(chan struct{})
		waiting, most := 0, 0
		k.forgetName = func(dir uint64, _ string) {
			if dir != 1 {
				return
			}
			waiting++
			most = max(most, waiting)
			<-free
			waiting--
		}
		held, began := q.Name(1, "first"), time.Now()
		for range 200 {
			q.Name(1, "more")
			after := q.Content(2)
			if err := q.Await(t.Context(), after-1, after); err != nil || time.Since(began) > 0 {
				t.Fatalf("another inode's notice took %v: %v", time.Since(began), err)
			}
		}
		if q.Told(held) || q.Idle() || len(q.HeldUp()) > 0 {
			t.Errorf("told: %v, idle: %v, held up: %v", q.Told(held), q.Idle(), q.HeldUp())
		}
		settle(2 * time.Second)
		if want := []Held{{1, began}}; !slices.Equal(q.HeldUp(), want) {
			t.Errorf("held up: %v, want %v", q.HeldUp(), want)
		}
		close(free)
		if err := q.Await(t.Context(), 0, q.Newest()); err != nil || !q.Idle() || !q.Told(held) || len(q.HeldUp()) > 0 {
			t.Errorf("awaited: %v; idle: %v, told: %v, held up: %v", err, q.Idle(), q.Told(held), q.HeldUp())
		}
		if most != 1 {
			t.Errorf("%d calls waited for one inode", most)
		}
	})
}

// TestCallsAreBounded holds that no more calls wait in the kernel at once than there may be, and
// that all notices get there.
func TestCallsAreBounded(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		var mu sync.Mutex
		waiting, most := 0, 0
		free := make(chan struct{})
		k.forget = func(uint64, bool) bool {
			mu.Lock()
			waiting++
			most = max(most, waiting)
			mu.Unlock()
			<-free
			mu.Lock()
			waiting--
			mu.Unlock()
			return true
		}
		for inode := range uint64(200) {
			q.Content(inode)
		}
		settle(time.Minute)
		if want := 64; most != want || len(q.HeldUp()) != want {
			t.Errorf("%d calls wait in the kernel, and %d inodes are listed, want %d", most, len(q.HeldUp()), want)
		}
		close(free)
		if err := q.Await(t.Context(), 0, q.Newest()); err != nil || !q.Idle() {
			t.Errorf("awaited: %v, idle: %v", err, q.Idle())
		}
	})
}

// TestAwait: a caller waits for the kernel, but not for ever, and not once it is interrupted.
func TestAwait(t *testing.T) {
	cause := errors.New("interrupted")
	tests := map[string]struct {
		after, upTo uint64
		then        func(q *Notices, interrupt func())
		wants       error
		took        time.Duration
	}{
		"nothing":         {3, 3, nil, nil, 0},
		"the other way":   {3, 2, nil, nil, 0},
		"at most":         {0, 1, nil, nil, awaitAtMost},
		"not sent yet":    {1, 2, nil, nil, awaitAtMost},
		"interrupted":     {0, 1, func(_ *Notices, interrupt func()) { interrupt() }, context.Canceled, 7 * time.Millisecond},
		"after the mount": {0, 1, func(q *Notices, _ func()) { q.Close() }, nil, 7 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewNotices() // nothing runs it: no kernel takes anything in
				q.Content(1)
				q.Content(1)
				ctx, interrupt := context.WithCancelCause(t.Context())
				defer interrupt(nil)
				began := time.Now()
				if test.then != nil {
					time.AfterFunc(7*time.Millisecond, func() { test.then(q, func() { interrupt(cause) }) })
				}
				if err := q.Await(ctx, test.after, test.upTo); !errors.Is(err, test.wants) || time.Since(began) != test.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), test.wants, test.took)
				}
			})
		})
	}
}

// TestNothingIsToldAfterClose closes the queue while a notice waits in the kernel and others in
// the queue, and notices more.
func TestNothingIsToldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		k, q := &fakeKernel{}, NewNotices()
		k.forgetName = func(uint64, string) { <-free }
		k.forget = func(uint64, bool) bool { return false } // each must be repeated
		q.Run(k)
		q.Content(1)
		synctest.Wait()
		q.Name(1, "held")
		synctest.Wait()
		q.Name(1, "pending")
		closed := false
		go func() {
			q.Close()
			closed = true
		}()
		settle(time.Second)
		if closed {
			t.Error("closed while a notice waits in the kernel")
		}
		close(free)
		synctest.Wait()
		if !closed {
			t.Error("not closed when the kernel has taken in everything")
		}
		k.want(t, "1 true", "1/held")
		if number := q.Name(1, "after"); number != q.Newest() || q.Told(number) {
			t.Errorf("the notice has number %d, the newest is %d", number, q.Newest())
		}
		settle(time.Minute)
		k.want(t, "1 true", "1/held")
		q.Close()
	})
}

// TestCloseBeforeRun: a mount can end before the kernel is told anything.
func TestCloseBeforeRun(t *testing.T) {
	k, q := &fakeKernel{}, NewNotices()
	q.Content(1)
	q.Close()
	q.Run(k)
	k.want(t)
}

// TestNoticeIsRepeated: the reply that tells the kernel of an inode, with what was true before,
// can come after the notice.
func TestNoticeIsRepeated(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		var at []time.Duration
		began := time.Now()
		k.forget = func(uint64, bool) bool {
			at = append(at, time.Since(began).Round(time.Millisecond))
			return false
		}
		q.Content(1)
		settle(time.Minute)
		if want := []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 420 * time.Millisecond, 1700 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("the kernel was told after %v, want %v", at, want)
		}
		q.Name(1, "unknown")
		settle(time.Minute)
		if len(k.told) != len(at)+1 {
			t.Errorf("a name was repeated: %q", k.told)
		}
	})
}
