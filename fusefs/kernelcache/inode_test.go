package kernelcache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// TestOutdatedPages follows an inode whose pages become outdated.
func TestOutdatedPages(t *testing.T) {
	inOrder(t, func(t *testing.T, k *fakeKernel, q *Notices) {
		want := func(c *Inode, when string, outdated, misled bool) {
			t.Helper()
			if c.Outdated() != outdated || c.Misled(q) != misled {
				t.Errorf("%s: outdated %v, misled %v; want %v, %v", when, c.Outdated(), c.Misled(q), outdated, misled)
			}
		}
		held := make(chan struct{})
		k.forget = func(uint64, bool) bool {
			<-held
			return true
		}
		var c Inode
		want(&c, "new", false, false)
		if number := c.Outdate(q, 1); number != 0 || q.Newest() != 0 {
			t.Errorf("a kernel that does not know the inode is told of it: notice %d", number)
		}
		want(&c, "not known", true, false)
		c.Opened(q, false)
		want(&c, "opened", false, false)

		c.Lookups = 1
		number := c.Outdate(q, 1)
		want(&c, "not told", true, true)
		c.Opened(q, false)
		want(&c, "opened, and not told", true, true)
		close(held)
		if err := q.Await(t.Context(), 0, number); err != nil {
			t.Fatal(err)
		}
		want(&c, "told", true, false)
		c.Opened(q, false)
		want(&c, "told, and opened", false, false)

		c.Outdate(q, 1)
		c.Opened(q, true)
		want(&c, "truncated", false, false)
	})
}

// TestWriterAwaitsPushes: pages belong to a writer when the pushes that are under way have ended,
// and from then on.
func TestWriterAwaitsPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mount sync.Mutex
		c := Inode{Lookups: 1}
		if first, second := c.beginPush(), c.beginPush(); !first || !second {
			t.Fatal("what nobody writes is not pushed")
		}
		wait := func(ctx context.Context) chan error {
			ended := make(chan error, 1)
			go func() { ended <- c.AwaitPushes(ctx, &mount) }()
			synctest.Wait()
			return ended
		}
		waits := func(ended chan error) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Errorf("a writer went on, with %v, while a push is under way", err)
			default:
			}
		}
		ctx, interrupt := context.WithCancel(t.Context())
		one, two, three := wait(t.Context()), wait(ctx), wait(t.Context())
		waits(one)
		if c.beginPush() {
			t.Error("what is about to be written is pushed")
		}
		interrupt()
		if err := <-two; !errors.Is(err, context.Canceled) {
			t.Errorf("the interrupted writer: %v", err)
		}
		c.endPush()
		waits(one)
		waits(three)
		c.endPush()
		if err := errors.Join(<-one, <-three); err != nil || c.Pushing() {
			t.Errorf("the writers: %v; pushes are under way: %v", err, c.Pushing())
		}
		if err := c.AwaitPushes(ctx, &mount); err != nil {
			t.Errorf("with nothing to wait for: %v", err)
		}
		if c.beginPush() {
			t.Error("what was written is pushed")
		}
		if mount.TryLock(); !(&Inode{Lookups: 1}).beginPush() || (&Inode{}).beginPush() {
			t.Error("a push needs a kernel that knows the inode, and no more")
		}
	})
}

func TestInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := Now()
		time.Sleep(time.Second)
		if Now() <= before || before.Since() != time.Second {
			t.Errorf("a second is %v", before.Since())
		}
		if !before.wasLately() || Instant(0).wasLately() {
			t.Error("a second ago is lately, and never is not")
		}
		if time.Sleep(lately); before.wasLately() {
			t.Error("a minute ago is not lately")
		}
	})
}

// TestPushedInodeIsSmallAgain: a walk pushes every file of a store.
func TestPushedInodeIsSmallAgain(t *testing.T) {
	pushed := func(c *Inode) *Inode {
		if first, second := c.beginPush(), c.beginPush(); !first || !second {
			t.Fatal("what nobody writes is not pushed")
		}
		c.endPush()
		c.endPush()
		return c
	}
	if c := pushed(&Inode{Lookups: 1}); c.aside != nil {
		t.Errorf("what was pushed has %+v aside, want nothing", *c.aside)
	}
	told := &Inode{Lookups: 1}
	told.SetBirth(5)
	told.SetNameNotice(7)
	if c := pushed(told); c.Birth() != 5 || c.NameNotice() != 7 {
		t.Errorf("after a push the kernel was told of the birth at %d, and of the name by notice %d, want 5 and 7", c.Birth(), c.NameNotice())
	}
	var blank Inode
	blank.SetBirth(0)
	blank.SetNameNotice(0)
	if blank.aside != nil {
		t.Errorf("what has been told nothing has %+v aside", *blank.aside)
	}
}

// TestInodeIsSmall: a program that lists a store makes one for each memory.
func TestInodeIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Inode{}); size > 48 {
		t.Errorf("an inode takes %d bytes, want at most 48", size)
	}
}
