package fusefs

import (
	"slices"
	"sync"
	"testing"

	"mneme/fusefs/kernelcache"
	"mneme/memory"
)

// fakeKernel is a kernel that knows every inode and takes in at once what it is told, unless
// a name holds it up.
type fakeKernel struct {
	before func(name string) // is called before a name is forgotten; nil: nothing
	stores func(inode uint64, data []byte) bool

	mu    sync.Mutex
	names []dirName // which it was told to forget
	pages []uint64  // inodes, likewise
}

type dirName struct {
	dir  uint64
	name string
}

func (k *fakeKernel) Forget(notices []kernelcache.Notice) (unknown bool) {
	for _, n := range notices {
		if n.Name != "" && k.before != nil {
			k.before(n.Name)
		}
		k.mu.Lock()
		switch {
		case n.Name != "":
			k.names = append(k.names, dirName{n.Inode, n.Name})
		case n.Pages:
			k.pages = append(k.pages, n.Inode)
		}
		k.mu.Unlock()
	}
	return false
}

func (k *fakeKernel) Store(inode uint64, data []byte) bool { return k.stores(inode, data) }

// forgot reports whether the kernel was told to forget a name.
func (k *fakeKernel) forgot(dir uint64, name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.names, dirName{dir, name})
}

// keepNotices has a file system keep its notices, for a kernel that is to begin later.
func (fs *fileSystem) keepNotices() { fs.notify = invalidator{kernelcache.NewNotices()} }

// takeNotices gives a kernel the notices, until the test ends.
func (fs *fileSystem) takeNotices(t *testing.T, k *fakeKernel) {
	fs.notify.Run(k)
	t.Cleanup(fs.notify.Close)
}

// withKernel is keepNotices and takeNotices.
func (fs *fileSystem) withKernel(t *testing.T) *fakeKernel {
	k := &fakeKernel{}
	fs.keepNotices()
	fs.takeNotices(t, k)
	return k
}

// awaitNotices returns when the kernel has taken in all notices.
func (fs *fileSystem) awaitNotices(t *testing.T) {
	t.Helper()
	if err := fs.notify.Await(t.Context(), 0, fs.notify.Newest()); err != nil || !fs.notify.Idle() {
		t.Fatal("the kernel does not take notices in", err)
	}
}

// These methods are what tests of a rig do with its notices.
func (r *rig) notices() invalidator           { return r.fs.notify }
func (r *rig) ahead() *kernelcache.Prefetcher { return r.fs.ahead }
func (r *rig) keepNotices()                   { r.fs.keepNotices() }
func (r *rig) give(k *fakeKernel)             { r.fs.takeNotices(r.T, k) }
func (r *rig) awaitNotices()                  { r.fs.awaitNotices(r.T) }
func (r *rig) withKernel() *fakeKernel        { return r.fs.withKernel(r.T) }

// head is what the tree has of a file.
func (r *rig) head(path string) *memory.Head { return r.s.tree.FindLocked(path).HeadLocked() }

// push gives the kernel the bytes of a head of a file.
func (r *rig) push(path string, head *memory.Head, data []byte) (pushed bool) {
	return r.ahead().Push(cached{r.s.tree.FindLocked(path)}, head, data)
}
