package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// The hot paths, without a kernel: what a request costs in the daemon.

// newBench makes a file system that can be written, of 1,000 files in one
// directory, and returns it with the numbers of the directory and of a file in it.
func newBench(b testing.TB) (fs *fileSystem, dir, file uint64) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		b.Fatal(err)
	}
	ms, err := lib.Open(ctx, info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	var changes []memory.Change
	for i := range 1000 {
		changes = append(changes, memory.Change{
			Action: versionlog.Put, Path: fmt.Sprintf("/dir/file%03d", i), Content: make([]byte, 4096), Expect: versionlog.ExpectAny(),
		})
	}
	if _, err := ms.Batch(ctx, changes, nil); err != nil {
		b.Fatal(err)
	}
	fs = newFileSystem(ctx, []*memory.Store{ms}, Options{Logger: slog.New(slog.DiscardHandler)})
	if err := fs.stores[0].tree.Walk(ctx); err != nil {
		b.Fatal(err)
	}
	var follower sync.WaitGroup
	follower.Go(func() { fs.stores[0].follow(ctx) })
	b.Cleanup(func() {
		cancel()
		follower.Wait()
	})
	n := fs.stores[0].tree.FindLocked("/dir")
	return fs, n.ID(), n.ChildLocked("file500").ID()
}

func mustOK(b testing.TB, status fuse.Status) {
	if !status.Ok() {
		b.Fatal(status)
	}
}

// readOnce opens, reads and releases a file, with a reply in a buffer that stays, as the
// server has it.
func readOnce(t testing.TB, fs *fileSystem, header fuse.InHeader, out *fuse.OpenOut, buffer []byte) {
	mustOK(t, fs.Open(nil, &fuse.OpenIn{InHeader: header}, out))
	_, status := fs.Read(nil, &fuse.ReadIn{InHeader: header, Fh: out.Fh}, buffer)
	mustOK(t, status)
	fs.Release(nil, &fuse.ReleaseIn{InHeader: header, Fh: out.Fh})
}

func BenchmarkLookup(b *testing.B) {
	fs, dir, _ := newBench(b)
	b.ReportAllocs()
	header := &fuse.InHeader{NodeId: dir}
	var out fuse.EntryOut
	for b.Loop() {
		mustOK(b, fs.Lookup(nil, header, "file500", &out))
	}
}

func BenchmarkOpenReadRelease(b *testing.B) {
	fs, _, file := newBench(b)
	b.ReportAllocs()
	header := fuse.InHeader{NodeId: file}
	buffer := make([]byte, 4096)
	var out fuse.OpenOut
	for b.Loop() {
		readOnce(b, fs, header, &out, buffer)
	}
}

func BenchmarkList1000(b *testing.B) {
	fs, dir, _ := newBench(b)
	b.ReportAllocs()
	header := fuse.InHeader{NodeId: dir}
	buffer := make([]byte, 128<<10)
	for b.Loop() {
		var out fuse.OpenOut
		mustOK(b, fs.OpenDir(nil, &fuse.OpenIn{InHeader: header}, &out))
		for in := (&fuse.ReadIn{InHeader: header, Fh: out.Fh}); ; {
			entries := fuse.NewDirEntryList(buffer, in.Offset)
			mustOK(b, fs.ReadDirPlus(nil, in, entries))
			if entries.Offset == in.Offset {
				break
			}
			in.Offset = entries.Offset
		}
		fs.ReleaseDir(&fuse.ReleaseIn{InHeader: header, Fh: out.Fh})
	}
}

// BenchmarkSave is a shell's redirection: truncating open, write, close. Log and
// blobs are in memory.
func BenchmarkSave(b *testing.B) {
	fs, _, file := newBench(b)
	b.ReportAllocs()
	header := fuse.InHeader{NodeId: file}
	data := make([]byte, 4096)
	const flags = 0o1001 // O_WRONLY | O_TRUNC
	for i := 0; b.Loop(); i++ {
		copy(data, fmt.Sprint(i, " "))
		var out fuse.OpenOut
		mustOK(b, fs.Open(nil, &fuse.OpenIn{InHeader: header, Flags: flags}, &out))
		_, status := fs.Write(nil, &fuse.WriteIn{InHeader: header, Fh: out.Fh}, data)
		mustOK(b, status)
		mustOK(b, fs.Flush(nil, &fuse.FlushIn{InHeader: header, Fh: out.Fh}))
		fs.Release(nil, &fuse.ReleaseIn{InHeader: header, Fh: out.Fh})
	}
}
