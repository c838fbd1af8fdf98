package kernelcache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// fakeNode is a file or directory of a fakeSource.
type fakeNode struct {
	number   uint64
	cache    Inode
	parent   *fakeNode
	children []*fakeNode
	head     *memory.Head // of a file
}

func (n *fakeNode) Number() uint64 { return n.number }
func (n *fakeNode) IsDir() bool    { return n.head == nil }
func (n *fakeNode) Cache() *Inode  { return &n.cache }

// fakeSource is a tree whose store is slow. It counts what is asked of it.
type fakeSource struct {
	mount sync.Mutex
	root  *fakeNode
	nodes uint64

	delay time.Duration
	batch int
	lacks string // the path of a file that is not read together with others

	mu       sync.Mutex
	fetched  map[string]int // by path
	underWay int
	most     int
}

// newSource makes a tree of so many directories of so many files, of so many bytes each.
func newSource(dirs, files int, size int64) *fakeSource {
	s := &fakeSource{delay: 20 * time.Millisecond, batch: 1, fetched: map[string]int{}}
	s.root = s.add(nil, nil)
	for d := range dirs {
		dir := s.add(s.root, nil)
		for f := range files {
			s.add(dir, fileHead(fmt.Sprintf("/dir%03d/file%03d", d, f), size))
		}
	}
	return s
}

func (s *fakeSource) add(dir *fakeNode, head *memory.Head) *fakeNode {
	s.nodes++
	n := &fakeNode{number: s.nodes, parent: dir, head: head}
	if dir != nil {
		dir.children = append(dir.children, n)
	}
	return n
}

func (s *fakeSource) List(dir, after Node) []Node {
	s.mount.Lock()
	defer s.mount.Unlock()
	var nodes []Node
	for _, n := range dir.(*fakeNode).children {
		if after == nil || n.number > after.Number() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (s *fakeSource) Each(dir Node, do func(Node)) {
	s.mount.Lock()
	defer s.mount.Unlock()
	for _, n := range dir.(*fakeNode).children {
		do(n)
	}
}

func (s *fakeSource) Parent(n Node) Node {
	s.mount.Lock()
	defer s.mount.Unlock()
	if up := n.(*fakeNode).parent; up != nil {
		return up
	}
	return nil
}

func (s *fakeSource) Head(n Node) *memory.Head {
	s.mount.Lock()
	defer s.mount.Unlock()
	return n.(*fakeNode).head
}

func (s *fakeSource) PushableLocked(n Node, head *memory.Head) bool {
	if s.mount.TryLock() {
		panic("the mount's lock is not held")
	}
	return n.(*fakeNode).head == head
}

func (s *fakeSource) BatchSize(Node) int { return s.batch }

func (s *fakeSource) Contents(ctx context.Context, n Node, heads []*memory.Head) [][]byte {
	s.mu.Lock()
	s.underWay++
	s.most = max(s.most, s.underWay)
	s.mu.Unlock()
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	all := make([][]byte, len(heads))
	for i, h := range heads {
		if ctx.Err() == nil && h.Path() != s.lacks {
			s.fetched[h.Path()]++
			all[i] = textOf(h)
		}
	}
	return all
}

func textOf(h *memory.Head) []byte { return []byte("text of " + h.Path()) }

func fileHead(path string, size int64) *memory.Head {
	return memory.NewHead(&versionlog.Version{Path: path, Size: size})
}

// counts returns how many files were fetched how often in all, and how many fetches were under way
// at once.
func (s *fakeSource) counts() (files, fetches, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.fetched {
		fetches += n
	}
	return len(s.fetched), fetches, s.most
}

// walker reads a tree through a Prefetcher.
type walker struct {
	*testing.T
	*fakeSource
	*Prefetcher
	alone []string // the files that it has read without help
}

// walking runs a test with a tree, on a clock that stands still while anybody works.
func walking(t *testing.T, dirs, files int, test func(t *testing.T, w *walker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(dirs, files, 100)
		p := NewPrefetcher(&s.mount, s)
		defer p.Close()
		test(t, &walker{T: t, fakeSource: s, Prefetcher: p})
	})
}

// list reads a directory to its end, as the kernel does, which knows its files then.
func (w *walker) list(dir *fakeNode) {
	dir.cache.Listed()
	w.fakeSource.mount.Lock()
	for _, n := range dir.children {
		n.cache.Lookups++
	}
	w.fakeSource.mount.Unlock()
	w.Listed(dir)
}

func (w *walker) read(n *fakeNode) {
	w.Helper()
	data := w.Prefetcher.Read(w.Context(), n, n.head)
	if data == nil {
		w.alone = append(w.alone, n.head.Path())
		time.Sleep(w.delay)
	} else if string(data) != string(textOf(n.head)) {
		w.Errorf("%s holds %q", n.head.Path(), data)
	}
}

func (w *walker) file(d, f int) *fakeNode { return w.root.children[d].children[f] }

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
// that nobody has listed, and up as far as they have been.
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

// TestFetchedIsPushed holds that the kernel gets what was fetched when it knows the file, unless
// that was read before, is another version by now, or is written.
func TestFetchedIsPushed(t *testing.T) {
	walking(t, 2, 6, func(t *testing.T, w *walker) {
		k := &fakeKernel{}
		w.Connect(k)
		w.batch = 4
		dir := w.root.children[1]
		w.list(w.root)
		w.list(w.root.children[0])
		w.read(w.file(0, 0))
		w.read(w.file(0, 1))
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
		if w.file(1, 1).cache.ahead.Load() != nil || len(w.alone) != 2 {
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
	walking(t, 4, 100, func(t *testing.T, w *walker) {
		w.list(w.root)
		w.list(w.root.children[0])
		w.list(w.root.children[1])
		w.read(w.file(0, 0))
		w.read(w.file(0, 1))
		synctest.Wait()
		began := time.Now()
		w.Prefetcher.Close()
		if time.Since(began) > 0 {
			t.Errorf("a fetch under way is waited for: %v", time.Since(began))
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
