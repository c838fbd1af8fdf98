package kernelcache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWalkIsReadTogether holds that where blobs can be read together a walk does that, also when
// its reader is as fast as can be; that what is not read together is read alone; and that each is
// read once.
func TestWalkIsReadTogether(t *testing.T) {
	const dirs, files = 10, 25
	walking(t, dirs, files, func(t *testing.T, w *walker) {
		w.batch, w.lacks = 8, "/dir003/file003"
		w.list(w.root)
		for _, dir := range w.root.children {
			w.list(dir)
			for _, n := range dir.children {
				w.read(n)
			}
		}
		if want := []string{"/dir000/file000", "/dir000/file001", w.lacks}; !slices.Equal(w.alone, want) { // two begin the walk
			t.Errorf("%q were read alone, want %q", w.alone, want)
		}
		if files, fetches, most := w.counts(); files != dirs*25-3 || fetches != files || most != 1 {
			t.Errorf("%d files were read together, %d times, %d batches at once", files, fetches, most)
		}
	})
}

// TestLoneReadFetchesOne holds that a file read by its name, or one after a listing, is read alone.
func TestLoneReadFetchesOne(t *testing.T) {
	walking(t, 3, 5, func(t *testing.T, w *walker) {
		w.read(w.file(0, 0))
		w.read(w.file(0, 1))
		w.list(w.root)
		w.list(w.root.children[1])
		w.read(w.file(1, 0))
		w.read(w.file(1, 0))         // by another program
		time.Sleep(2 * walkPatience) // and not soon after
		w.read(w.file(1, 1))
		time.Sleep(2 * lately)
		w.read(w.file(1, 2))
		w.read(w.file(1, 3)) // after a listing of long ago
		synctest.Wait()
		if files, _, _ := w.counts(); files > 0 {
			t.Errorf("lone reads fetch %d other files", files)
		}
	})
}

// TestWalkInOrder holds that a walk is followed in the order of listings: down into directories
// that no program has listed, and up as far as they have been.
func TestWalkInOrder(t *testing.T) {
	walking(t, 3, 2, func(t *testing.T, w *walker) {
		above := w.add(nil, nil)
		w.root.parent = above
		above.children = []*fakeNode{w.root}
		w.add(above, fileHead("/not listed", 1))
		w.add(w.root.children[1], fileHead("/dir001/last", 1))
		w.batch = 100
		w.list(w.root)
		w.list(w.root.children[1])
		w.read(w.file(1, 0))
		w.read(w.file(1, 1))
		time.Sleep(100 * time.Millisecond)
		w.fakeSource.mu.Lock()
		defer w.fakeSource.mu.Unlock()
		for path, want := range map[string]int{"/dir000/file000": 0, "/dir001/file000": 0, "/dir001/last": 1, "/dir002/file000": 1, "/dir002/file001": 1, "/not listed": 0} {
			if w.fakeSource.fetched[path] != want {
				t.Errorf("%s was fetched %d times, want %d", path, w.fakeSource.fetched[path], want)
			}
		}
	})
}

// TestWalkThatStops holds that fetching ahead ends with the walk, within its bounds.
func TestWalkThatStops(t *testing.T) {
	tests := map[string]struct {
		size  int64
		batch int
		most  int // files ahead
	}{
		"files":  {100, 1, maxAheadFiles},
		"bytes":  {1 << 20, 1, maxAheadBytes >> 20},
		"batch":  {100, 8, maxAheadFiles},
		"bigger": {maxAheadBytes, 8, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			walking(t, 60, 30, func(t *testing.T, w *walker) {
				w.batch, w.delay = test.batch, time.Millisecond
				for _, dir := range w.root.children {
					for _, n := range dir.children {
						n.head = fileHead(n.head.Path(), test.size)
					}
				}
				w.list(w.root)
				w.list(w.root.children[0])
				w.read(w.file(0, 0))
				w.read(w.file(0, 1))
				settle(time.Minute)
				if files, fetches, most := w.counts(); files != test.most || fetches != files || most > maxFetching {
					t.Errorf("two reads fetch %d files, want %d, %d times, %d at once", files, test.most, fetches, most)
				}
				w.Prefetcher.mu.Lock()
				defer w.Prefetcher.mu.Unlock()
				if len(w.walks) > 0 || w.fetching > 0 {
					t.Errorf("%d walks go on, %d fetches are under way", len(w.walks), w.fetching)
				}
			})
		})
	}
}

// TestWalksAreBounded has more programs walk than are followed: the one that has not read for the
// longest time is left.
func TestWalksAreBounded(t *testing.T) {
	walking(t, maxWalks+1, 2000, func(t *testing.T, w *walker) {
		for d, dir := range w.root.children {
			w.list(dir)
			w.read(w.file(d, 0))
			w.read(w.file(d, 1))
		}
		if _, _, most := w.counts(); most > maxFetching {
			t.Errorf("%d fetches were under way at once", most)
		}
		w.Prefetcher.mu.Lock()
		defer w.Prefetcher.mu.Unlock()
		var dirs []int
		for _, followed := range w.walks {
			dirs = append(dirs, slices.Index(w.root.children, followed.dir.(*fakeNode)))
		}
		if want := []int{1, 2, 3, 4}; !slices.Equal(dirs, want) {
			t.Errorf("walks through the directories %d are followed, want %d", dirs, want)
		}
	})
}

// TestWalkGoesOnPastWhatIsPushed: no program reads what the kernel has, so that a walk continues
// with the listings.
func TestWalkGoesOnPastWhatIsPushed(t *testing.T) {
	walking(t, 80, 30, func(t *testing.T, w *walker) {
		w.Connect(&fakeKernel{})
		w.list(w.root)
		for d, dir := range w.root.children {
			w.list(dir)
			if d == 0 {
				w.read(w.file(0, 0))
				w.read(w.file(0, 1))
			}
			settle(50 * time.Millisecond)
		}
		if files, fetches, _ := w.counts(); files != 80*30-2 || fetches != files {
			t.Errorf("%d files were fetched, %d times, want %d", files, fetches, 80*30-2)
		}
	})
}

// TestWalkGoesOnWithASlowReader reads as slowly as a walk may be, and reads on.
func TestWalkGoesOnWithASlowReader(t *testing.T) {
	walking(t, 1, 2000, func(t *testing.T, w *walker) {
		w.list(w.root.children[0])
		const reads = 10
		for f := range reads {
			w.read(w.file(0, f))
			time.Sleep(walkPatience * 9 / 10)
		}
		if files, _, _ := w.counts(); files != maxAheadFiles+reads-2 || len(w.alone) != 2 {
			t.Errorf("%d files were fetched, want %d; %q were read alone", files, maxAheadFiles+reads-2, w.alone)
		}
	})
}

// TestWalkIsOvertaken has a reader come to a directory that is being fetched, before its file is:
// that is still one walk.
func TestWalkIsOvertaken(t *testing.T) {
	walking(t, 2, 20, func(t *testing.T, w *walker) {
		w.delay = 500 * time.Millisecond
		for _, dir := range []*fakeNode{w.root, w.root.children[0], w.root.children[1]} {
			w.list(dir)
		}
		w.root.children[0].children = w.root.children[0].children[:2]
		w.read(w.file(0, 0))
		w.read(w.file(0, 1)) // from here on files 0 and 1 of the next directory are fetched
		w.read(w.file(1, 19))
		w.Prefetcher.mu.Lock()
		defer w.Prefetcher.mu.Unlock()
		if len(w.walks) != 1 {
			t.Errorf("%d walks are followed", len(w.walks))
		}
	})
}

// TestFetchesUnderWayAreBounded has a store that is so far away that more fetches than there may be
// would be of use, and one that reads big files together.
func TestFetchesUnderWayAreBounded(t *testing.T) {
	for _, batch := range []int{1, 8} {
		t.Run(fmt.Sprint("batch ", batch), func(t *testing.T) {
			walking(t, 60, 30, func(t *testing.T, w *walker) {
				w.batch, w.delay = batch, 200*time.Millisecond
				for _, n := range w.root.children[0].children {
					n.head = fileHead(n.head.Path(), maxBatchBytes/2)
				}
				w.list(w.root)
				w.list(w.root.children[0])
				for f := range 2 {
					w.read(w.file(0, f))
				}
				settle(walkPatience / 2)
				_, _, most := w.counts()
				if wantMost, wantWidest := map[int]int{1: maxFetching, 8: 1}[batch], map[int]int{1: 1, 8: 2}[batch]; most != wantMost || w.widest != wantWidest {
					t.Errorf("%d fetches were under way at once, want %d; of at most %d files, want %d", most, wantMost, w.widest, wantWidest)
				}
			})
		})
	}
}

// TestEndedWalkLeavesNothing: what was fetched for a reader that has stopped is not kept for it, and
// is fetched again when it goes on.
func TestEndedWalkLeavesNothing(t *testing.T) {
	walking(t, 2, 20, func(t *testing.T, w *walker) {
		for _, dir := range []*fakeNode{w.root, w.root.children[0], w.root.children[1]} {
			w.list(dir)
		}
		w.read(w.file(0, 0))
		w.read(w.file(0, 1))
		settle(2 * walkPatience)
		for d, dir := range w.root.children {
			for f, n := range dir.children {
				if n.cache.ahead.Load() != nil {
					t.Errorf("file %d of directory %d is kept", f, d)
				}
			}
		}
		before, _, _ := w.counts()
		w.read(w.file(0, 2))
		w.read(w.file(0, 3))
		settle(walkPatience / 2)
		w.read(w.file(0, 4))
		_, after, _ := w.counts()
		if before != 38 || after-before != 36 || len(w.alone) != 4 {
			t.Errorf("%d files were fetched, then %d; %q were read alone", before, after-before, w.alone)
		}
	})
}

// TestCancelledFetchIsNotForgotten: what a walk that ended had not got is fetched by the next one.
func TestCancelledFetchIsNotForgotten(t *testing.T) {
	walking(t, 1, 6, func(t *testing.T, w *walker) {
		w.delay = time.Hour // a store that does not answer
		w.list(w.root.children[0])
		read := func(f int) bool { return w.Prefetcher.Read(t.Context(), w.file(0, f), w.file(0, f).head) != nil }
		read(0)
		read(1)
		settle(2 * walkPatience)
		w.delay = time.Millisecond
		read(2)
		read(3)
		read(2) // had been asked for
		read(3)
		settle(walkPatience / 2)
		w.fakeSource.mu.Lock()
		defer w.fakeSource.mu.Unlock()
		for _, path := range []string{"/dir000/file004", "/dir000/file005"} {
			if w.fakeSource.fetched[path] != 1 {
				t.Errorf("%s was fetched %d times: %s", path, w.fakeSource.fetched[path], strings.Join(w.alone, " "))
			}
		}
	})
}
