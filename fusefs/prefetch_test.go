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
	together map[cas.Digest]int // by batchBlobs
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

// batchBlobs reads blobs together, but for some.
type batchBlobs struct {
	*slowBlobs
	alone func(cas.Digest) bool
}

func (b *batchBlobs) BatchSize() int { return 8 }

func (b *batchBlobs) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	time.Sleep(b.delay)
	all := make([][]byte, len(ds))
	for i, d := range ds {
		if !b.alone(d) {
			b.mu.Lock()
			b.together[d]++
			b.mu.Unlock()
			all[i], _ = b.Store.Get(ctx, d)
		}
	}
	return all
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
	return newDecorated(t, dirs, files, delay, func(s *slowBlobs) cas.Store { return s })
}

func newDecorated(t *testing.T, dirs, files int, delay time.Duration, decorate func(*slowBlobs) cas.Store) (*fileSystem, *slowBlobs) {
	t.Helper()
	ctx := context.Background()
	slow := &slowBlobs{Store: memcas.New(), delay: delay, gets: map[cas.Digest]int{}, together: map[cas.Digest]int{}}
	blobs, err := cache.New(decorate(slow), nil)
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
	if err := fs.stores[0].walk(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		fs.ahead.close()
	})
	return fs, slow
}

// listAll reads a directory as the kernel does.
func (fs *fileSystem) listAll(t *testing.T, dir *node) {
	t.Helper()
	in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: dir.id}}
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
	n := fs.stores[0].find(path)
	if status := fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: n.id}}, &fuse.AttrOut{}); !status.Ok() {
		t.Fatal(path, status)
	}
	result, status := fs.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: n.id}}, make([]byte, 4096))
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
	root := fs.stores[0].root
	fs.listAll(t, root)
	waits := 0
	for d := range dirs {
		dir := fmt.Sprintf("/dir%03d", d)
		fs.listAll(t, fs.stores[0].find(dir))
		for f := range files {
			path := fmt.Sprintf("%s/file%03d", dir, f)
			if n := fs.stores[0].find(path); n.ahead.Load() == nil {
				waits++
			}
			fs.readFile(t, path)
		}
	}
	blobs, gets, most := slow.counts()
	if blobs != dirs*files || gets != blobs {
		t.Errorf("%d blobs were fetched %d times; there are %d", blobs, gets, dirs*files)
	}
	if most > maxFetching+1 {
		t.Errorf("%d fetches were under way at once", most)
	}
	if waits > dirs*files/20 {
		t.Errorf("%d of %d files were not fetched ahead", waits, dirs*files)
	}
}

// TestWalkIsReadTogether holds that where blobs can be read together a walk does
// that, also when its reader is as fast as can be; that what is not read together
// is read alone; and that each is read once.
func TestWalkIsReadTogether(t *testing.T) {
	const dirs, files = 10, 25
	alone := cas.Sum([]byte("text of /dir003/file003"))
	fs, slow := newDecorated(t, dirs, files, time.Millisecond, func(s *slowBlobs) cas.Store {
		return &batchBlobs{s, func(d cas.Digest) bool { return d == alone }}
	})
	fs.listAll(t, fs.stores[0].root)
	for d := range dirs {
		dir := fmt.Sprintf("/dir%03d", d)
		fs.listAll(t, fs.stores[0].find(dir))
		for f := range files {
			fs.readFile(t, fmt.Sprintf("%s/file%03d", dir, f))
		}
	}
	_, gets, _ := slow.counts()
	if gets != 3 || slow.gets[alone] != 1 { // the two that begin the walk
		t.Errorf("%d blobs were read alone, the one that has to be %d times", gets, slow.gets[alone])
	}
	if len(slow.together) != dirs*files-3 {
		t.Errorf("%d of %d blobs were read together", len(slow.together), dirs*files)
	}
	for d, n := range slow.together {
		if n != 1 {
			t.Errorf("%v was read %d times", d, n)
		}
	}
}

// TestLoneReadFetchesOne holds that a file read by its name, or one after a
// listing, is fetched alone.
func TestLoneReadFetchesOne(t *testing.T) {
	fs, slow := newSlow(t, 3, 5, time.Millisecond)
	fs.readFile(t, "/dir000/file000")
	fs.readFile(t, "/dir000/file001")
	fs.listAll(t, fs.stores[0].root)
	fs.listAll(t, fs.stores[0].find("/dir001"))
	fs.readFile(t, "/dir001/file000")
	fs.ahead.close()
	if _, gets, _ := slow.counts(); gets != 3 {
		t.Errorf("three reads fetch %d blobs", gets)
	}
}

// TestWalkThatStops holds that fetching ahead ends with the walk, within its
// bounds.
func TestWalkThatStops(t *testing.T) {
	const dirs, files = 60, 30
	fs, slow := newSlow(t, dirs, files, time.Millisecond)
	fs.listAll(t, fs.stores[0].root)
	fs.listAll(t, fs.stores[0].find("/dir000"))
	fs.readFile(t, "/dir000/file000")
	fs.readFile(t, "/dir000/file001")
	for ended := false; !ended; time.Sleep(10 * time.Millisecond) {
		fs.ahead.mu.Lock()
		ended = len(fs.ahead.walks) == 0 && fs.ahead.fetching == 0
		fs.ahead.mu.Unlock()
	}
	if _, gets, _ := slow.counts(); gets > maxAheadFiles+2 {
		t.Errorf("two reads fetch %d blobs", gets)
	}
}
