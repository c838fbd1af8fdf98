package fusefs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cache"
	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs/tree"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// slowBlobs is a blob store far away. It counts what is asked of it.
type slowBlobs struct {
	cas.Store
	delay time.Duration

	mu       sync.Mutex
	gets     map[cas.Digest]int
	underWay int
	most     int
}

func (s *slowBlobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	s.mu.Lock()
	s.gets[d]++
	s.underWay++
	s.most = max(s.most, s.underWay)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.underWay--
		s.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.delay):
	}
	return s.Store.Get(ctx, d)
}

// asked reports whether a blob was asked for.
func (s *slowBlobs) asked(blob []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets[cas.Sum(blob)] > 0
}

func (s *slowBlobs) counts() (blobs, gets, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.gets {
		gets += n
	}
	return len(s.gets), gets, s.most
}

// newSlow makes a file system whose store has so many directories of so many
// files, each with bytes of its own.
func newSlow(t *testing.T, dirs, files int, delay time.Duration) (*fileSystem, *slowBlobs) {
	t.Helper()
	ctx := context.Background()
	slow := &slowBlobs{Store: memcas.New(), delay: delay, gets: map[cas.Digest]int{}}
	blobs, err := cache.New(slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(blobs.Close)
	log := memlog.New(nil)
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return slow.Store, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := lib.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	for d := range dirs {
		var changes []memory.Change
		for f := range files {
			path := fmt.Sprintf("/dir%03d/file%03d", d, f)
			changes = append(changes, memory.Change{Action: versionlog.Put, Path: path, Content: []byte("text of " + path), Expect: versionlog.ExpectAbsent()})
		}
		if _, err := ms.Batch(ctx, changes, nil); err != nil {
			t.Fatal(err)
		}
	}
	far := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	if ms, err = far.Open(ctx, info.ID, nil); err != nil {
		t.Fatal(err)
	}
	life, cancel := context.WithCancel(ctx)
	fs := newFileSystem(life, []*memory.Store{ms}, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := fs.stores[0].tree.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		fs.ahead.Close()
	})
	return fs, slow
}

// listAll reads a directory as the kernel does.
func (fs *fileSystem) listAll(t *testing.T, dir *tree.Entry) {
	t.Helper()
	in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: dir.ID()}}
	for {
		out := fuse.NewDirEntryList(make([]byte, 4096), in.Offset)
		if status := fs.ReadDirPlus(nil, in, out); !status.Ok() {
			t.Fatal(status)
		}
		if out.Offset == in.Offset {
			return
		}
		in.Offset = out.Offset
	}
}

func (fs *fileSystem) readFile(t *testing.T, path string) {
	t.Helper()
	n := fs.stores[0].tree.FindLocked(path)
	if status := fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: n.ID()}}, &fuse.AttrOut{}); !status.Ok() {
		t.Fatal(path, status)
	}
	result, status := fs.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: n.ID()}}, make([]byte, 4096))
	if !status.Ok() {
		t.Fatal(path, status)
	}
	data, _ := result.Bytes(nil)
	if string(data) != "text of "+path {
		t.Errorf("%s holds %q", path, data)
	}
}

// TestWalkIsFetchedAhead holds that a program which reads a tree file by file
// waits for few fetches only, that every blob is fetched once, and that the
// fetches under way are bounded.
func TestWalkIsFetchedAhead(t *testing.T) {
	const dirs, files = 40, 25
	fs, slow := newSlow(t, dirs, files, 20*time.Millisecond)
	root := fs.stores[0].tree.Root()
	fs.listAll(t, root)
	waits := 0
	for d := range dirs {
		dir := fmt.Sprintf("/dir%03d", d)
		fs.listAll(t, fs.stores[0].tree.FindLocked(dir))
		for f := range files {
			path := fmt.Sprintf("%s/file%03d", dir, f)
			if !slow.asked([]byte("text of " + path)) {
				waits++
			}
			fs.readFile(t, path)
		}
	}
	blobs, gets, most := slow.counts()
	if blobs != dirs*files || gets != blobs {
		t.Errorf("%d blobs were fetched %d times; there are %d", blobs, gets, dirs*files)
	}
	if most > 256+1 { // kernelcache's bound, and the reader's own
		t.Errorf("%d fetches were under way at once", most)
	}
	if waits > dirs*files/20 {
		t.Errorf("%d of %d files were not fetched ahead", waits, dirs*files)
	}
}
