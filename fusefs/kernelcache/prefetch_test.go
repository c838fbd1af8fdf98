package kernelcache

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mneme/memory"
)

// TestFetchedIsPushed holds that the kernel gets the fetched bytes when it knows the file, unless
// they were read before, belong to an older version now, or the file is written.
func TestFetchedIsPushed(t *testing.T) {
	walking(t, 2, 6, func(t *testing.T, w *walker) {
		k := &fakeKernel{}
		w.Connect(k)
		w.batch = 4
		dir := w.root.children[1]
		w.list(w.root)
		w.list(w.root.children[0])
		w.read(w.file(0, 0))
		_ = w.Prefetcher.Read(t.Context(), w.file(0, 1), w.file(0, 1).head)
		w.list(w.root.children[0]) // by another program, while its files are fetched
		settle(100 * time.Millisecond)
		text := func(d, f int) string {
			return fmt.Sprintf("%d=%s", w.file(d, f).number, textOf(w.file(d, f).head))
		}
		first := []string{text(0, 2), text(0, 3), text(0, 4), text(0, 5)}
		k.want(t, first...) // of the other directory's files the kernel does not know yet
		w.fakeSource.mount.Lock()
		w.file(1, 1).cache.Write()
		w.file(1, 3).head = fileHead("/dir001/file003", 1)
		w.fakeSource.mount.Unlock()
		w.read(w.file(1, 2))
		w.list(dir)
		settle(100 * time.Millisecond)
		k.want(t, append(first, text(1, 0), text(1, 4), text(1, 5))...)
		w.read(w.file(1, 1)) // what was not pushed is still there
		if w.file(1, 1).cache.ahead.Load() != nil || len(w.alone) != 1 {
			t.Errorf("%q were read alone", w.alone)
		}
		if data := w.Prefetcher.Read(t.Context(), w.file(1, 3), w.file(1, 3).head); data != nil {
			t.Errorf("version 2 is read as %q, the bytes of version 1", data)
		}
	})
}

// TestPushIsBounded: a file that has nothing, or too much, is not pushed, nor is one that a reader
// has to be seen reading.
func TestPushIsBounded(t *testing.T) {
	walking(t, 1, 2, func(t *testing.T, w *walker) {
		n, k := w.file(0, 0), &fakeKernel{}
		n.cache.Lookups = 1
		push := func(head *memory.Head, size int) bool { return w.Push(n, head, make([]byte, size)) }
		if push(n.head, 1) {
			t.Error("pushed without a kernel")
		}
		w.Connect(k)
		if push(n.head, 0) || push(n.head, maxPush+1) || push(w.file(0, 1).head, 1) || len(k.told) > 0 {
			t.Errorf("pushed what is not to be: %d times", len(k.told))
		}
		k.store = func(uint64, []byte) bool { return false }
		if push(n.head, maxPush) || len(k.told) != 1 {
			t.Errorf("the kernel did not take it, and was given it %d times", len(k.told))
		}
		if n.cache.Pushing() {
			t.Error("a push is still under way")
		}
	})
}

// TestReaderLeavesAFetch interrupts a reader that waits for a batch.
func TestReaderLeavesAFetch(t *testing.T) {
	walking(t, 1, 10, func(t *testing.T, w *walker) {
		w.batch = 8
		w.list(w.root.children[0])
		w.read(w.file(0, 0))
		if w.Prefetcher.Read(t.Context(), w.file(0, 1), w.file(0, 1).head) != nil {
			t.Error("what begins a walk was fetched ahead")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		began := time.Now()
		if data := w.Prefetcher.Read(ctx, w.file(0, 2), w.file(0, 2).head); data != nil || time.Since(began) != 5*time.Millisecond {
			t.Errorf("%q is read after %v", data, time.Since(began))
		}
		w.read(w.file(0, 3)) // for the others it goes on
		if len(w.alone) != 1 {
			t.Errorf("%q were read alone", w.alone)
		}
	})
}

// TestNothingIsFetchedAfterClose ends a mount in the middle of a walk, whose reader goes on.
func TestNothingIsFetchedAfterClose(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf ", deaf), func(t *testing.T) {
			walking(t, 4, 100, func(t *testing.T, w *walker) {
				w.deaf = deaf
				for _, dir := range []*fakeNode{w.root, w.root.children[0], w.root.children[1]} {
					w.list(dir)
				}
				w.read(w.file(0, 0))
				w.read(w.file(0, 1))
				synctest.Wait()
				began, want := time.Now(), time.Duration(0)
				if deaf {
					want = w.delay
				}
				w.Prefetcher.Close()
				if took := time.Since(began); took != want {
					t.Errorf("the fetches under way are waited for: %v, want %v", took, want)
				}
				before, _, _ := w.counts()
				for f := range 10 {
					w.read(w.file(1, f))
				}
				settle(time.Minute)
				if after, _, _ := w.counts(); after != before {
					t.Errorf("%d files are fetched after Close", after-before)
				}
			})
		})
	}
}

// TestReadIsNotPushed: a file that is read while it is fetched goes to the reader.
func TestReadIsNotPushed(t *testing.T) {
	walking(t, 1, 6, func(t *testing.T, w *walker) {
		k := &fakeKernel{}
		w.Connect(k)
		w.batch = 8
		w.list(w.root.children[0])
		for f := range 3 {
			_ = w.Prefetcher.Read(t.Context(), w.file(0, f), w.file(0, f).head) // the third is fetched for the walk that the second begins
		}
		settle(100 * time.Millisecond)
		for f := range 6 {
			n := w.file(0, f)
			if pushed := slices.Contains(k.told, fmt.Sprintf("%d=%s", n.number, textOf(n.head))); pushed != (f > 2) {
				t.Errorf("file %d was pushed: %v", f, pushed)
			}
		}
	})
}

// TestEndOfTheLastWalkIsTold has two programs walk, one of which goes on.
func TestEndOfTheLastWalkIsTold(t *testing.T) {
	walking(t, 2, 6, func(t *testing.T, w *walker) {
		w.list(w.root.children[0])
		w.list(w.root.children[1])
		for dir := range 2 {
			w.read(w.file(dir, 0))
			w.read(w.file(dir, 1))
		}
		for f := 2; f < 6; f++ {
			settle(walkPatience * 3 / 4)
			w.read(w.file(1, f))
		}
		if n := w.ended.Load(); n != 0 {
			t.Errorf("%d ends are told while somebody walks", n)
		}
		settle(2 * walkPatience)
		if n := w.ended.Load(); n != 1 {
			t.Errorf("%d ends are told, want one", n)
		}
	})
}
