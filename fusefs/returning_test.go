package fusefs

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mneme/forget"
	"mneme/memory"
	"mneme/versionlog"
)

// TestMemoryIsReturnedOnceAllIsCalm has files become known to the kernel. Memory goes back
// when there are many and no more come, once; and after a redaction, which waits until then, twice.
func TestMemoryIsReturnedOnceAllIsCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fs := newFileSystem(ctx, []*memory.Store(nil), Options{})
		var returned atomic.Int32
		fs.returning.free = func() { returned.Add(1) }
		go fs.returnMemory()
		follower := fs.returning.follower
		follower.Start()
		defer follower.Close()
		know := func(files int) {
			for range files {
				fs.returning.knownLocked()
			}
			synctest.Wait()
		}
		wants := func(when string, want int32) {
			t.Helper()
			time.Sleep(2 * calm)
			synctest.Wait()
			if returned.Load() != want {
				t.Errorf("%s: returned %d times, want %d", when, returned.Load(), want)
			}
		}
		know(manyKnown - 1)
		wants("after few files", 0)
		for range 10 { // a walk, which takes its time
			know(manyKnown)
			time.Sleep(calm / 2)
		}
		if n := returned.Load(); n > 0 {
			t.Errorf("returned %d times while files came, want none", n)
		}
		wants("after many files", 1)
		wants("a while later", 1)
		follower.Met(newRig(t).s.memory, &versionlog.Commit{Event: versionlog.StoreRedacted("memver_x")})
		wants("after a redaction", 2)
		time.Sleep(forget.ErasedWithin)
		wants("when all redactions have ended", 3)
		time.Sleep(forget.ErasedWithin)
		wants("a while later", 3)
	})
}

// TestLoadingReturnsMemory loads a store.
func TestLoadingReturnsMemory(t *testing.T) {
	r := newRig(t, "/a")
	passed := r.fs.returning.passed
	for len(passed) > 0 {
		<-passed
	}
	r.s.load(r.Context())
	if len(passed) == 0 {
		t.Error("the heads have loaded, and what they left is kept")
	}
}
