//go:build !race

package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestHotPathsAllocateLittle bounds what requests leave to the garbage collector: a name
// that is looked up, nothing; a file that is read, what is open of it, the handle and the
// result.
func TestHotPathsAllocateLittle(t *testing.T) {
	fs, dir, file := newBench(t)
	header := fuse.InHeader{NodeId: file}
	buffer := make([]byte, 4096)
	var entry fuse.EntryOut // replies are in buffers of the server's, which stay
	var open fuse.OpenOut
	if n := testing.AllocsPerRun(100, func() {
		mustOK(t, fs.Lookup(nil, &fuse.InHeader{NodeId: dir}, "file500", &entry))
	}); n > 0 {
		t.Errorf("a lookup takes %v allocations, want none", n)
	}
	if n := testing.AllocsPerRun(100, func() { readOnce(t, fs, header, &open, buffer) }); n > 3 {
		t.Errorf("to open, read and release a file that the kernel knows takes %v allocations, want 3", n)
	}
}
