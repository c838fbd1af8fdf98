package fusefs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/memory"
)

// copies are blobs of which every read has bytes of its own, as those of a disk have.
type copies struct{ cas.Store }

func (c copies) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := c.Store.Get(ctx, d)
	return bytes.Clone(data), err
}

// looker looks at directories as `ls -R` and `cat` do, and counts the references that the
// kernel holds then.
type looker struct {
	*rig
	front *front
	holds map[uint64]uint64
}

// look lists and reads all below a directory that was looked up.
func (l *looker) look(id uint64) {
	l.Helper()
	var open fuse.OpenOut
	l.must(errOf(l.front.OpenDir(nil, &fuse.OpenIn{InHeader: header(id)}, &open)))
	list := make([]byte, 1<<16)
	l.must(errOf(l.front.ReadDirPlus(nil, &fuse.ReadIn{InHeader: header(id), Fh: open.Fh}, fuse.NewDirEntryList(list, 0))))
	l.front.ReleaseDir(&fuse.ReleaseIn{InHeader: header(id), Fh: open.Fh})
	const entrySize, direntSize = 128, 24 // fuse_entry_out and fuse_dirent of the kernel's fuse.h
	for {
		dirent := list[entrySize:]
		length := binary.NativeEndian.Uint32(dirent[16:])
		if length == 0 {
			return
		}
		child, isDir := binary.NativeEndian.Uint64(list), binary.NativeEndian.Uint32(dirent[20:]) == syscall.DT_DIR
		list = dirent[direntSize+(length+7)&^7:]
		if child == 0 { // . and ..
			continue
		}
		l.holds[child]++
		if isDir {
			l.look(child)
			continue
		}
		l.must(errOf(l.front.Open(nil, &fuse.OpenIn{InHeader: header(child)}, &open)))
		_, status := l.front.Read(nil, &fuse.ReadIn{InHeader: header(child), Fh: open.Fh}, make([]byte, 4096))
		l.must(errOf(status))
		l.front.Release(nil, &fuse.ReleaseIn{InHeader: header(child), Fh: open.Fh})
	}
}

// find looks a path up, as a program does that names it.
func (l *looker) find(path ...string) (id uint64) {
	l.Helper()
	id, _ = l.parent("/x")
	for _, name := range path {
		in, out := header(id), fuse.EntryOut{}
		l.must(errOf(l.front.Lookup(nil, &in, name, &out)))
		id = out.NodeId
		l.holds[id]++
	}
	return id
}

// forget is what the kernel does when its caches are dropped.
func (l *looker) forget() {
	for id, count := range l.holds {
		l.front.Forget(id, count)
	}
	clear(l.holds)
}

// TestPastLeavesNothing looks at a hundred points in time: when the kernel has forgotten them,
// the mount has no node of them, and of the 25 MB that were read nothing but
// a few listings.
func TestPastLeavesNothing(t *testing.T) {
	r := newRig(t)
	const points, files, size = 100, 16, 8 << 10
	for i := range points {
		r.write(fmt.Sprintf("/d%d/sub/%d", i%4, i%files), string(bytes.Repeat([]byte{'a' + byte(i%26)}, size)))
	}
	r.follow()
	lib := memory.NewLibrary(r.log, func(string) (cas.Store, error) { return copies{r.blobs}, nil })
	mine, err := lib.Open(t.Context(), r.other.Info().ID, memory.SessionAuthor("mine"))
	r.must(err)
	r.s.memory = mine
	l := &looker{rig: r, front: r.front(), holds: map[uint64]uint64{}}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	count := func() int {
		defer r.looking()()
		return len(r.virtuals().inodes)
	}
	l.look(l.find(".mneme", "at", "1"))
	l.forget()
	nodes, before := count(), heap()
	for seq := range points {
		l.look(l.find(".mneme", "at", strconv.Itoa(seq+1)))
		l.look(l.find(".mneme", "at", fmt.Sprintf("HEAD~%d", seq)))
	}
	if len(l.holds) < points*files {
		t.Fatalf("the kernel has %d nodes: the tree was not looked at", len(l.holds))
	}
	l.forget()
	if now := count(); now != nodes {
		t.Errorf("%d nodes, before %d", now, nodes)
	}
	const kept = 4 << 20 // of 5,000 names that were listed, of some 300 bytes
	if grown := int64(heap()) - int64(before); grown > kept {
		t.Errorf("the heap has grown by %d bytes, at most %d are kept", grown, kept)
	}
}
