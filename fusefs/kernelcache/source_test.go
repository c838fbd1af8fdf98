package kernelcache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
	deaf  bool   // it does not hear that a fetch is cancelled

	mu       sync.Mutex
	fetched  map[string]int // by path
	underWay int
	most     int
	widest   int // batch
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
	s.most, s.widest = max(s.most, s.underWay), max(s.widest, len(heads))
	s.mu.Unlock()
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	cancelled := ctx.Done()
	if s.deaf {
		cancelled = nil
	}
	select {
	case <-timer.C:
	case <-cancelled:
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
	alone []string     // the files that it has read without help
	ended atomic.Int32 // how often the last walk has stopped
}

// walking runs a test with a tree, on a clock that stands still while a goroutine works.
func walking(t *testing.T, dirs, files int, test func(t *testing.T, w *walker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(dirs, files, 100)
		w := &walker{T: t, fakeSource: s}
		w.Prefetcher = NewPrefetcher(&s.mount, s, func() { w.ended.Add(1) })
		defer w.Close()
		test(t, w)
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
