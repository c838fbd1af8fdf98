package fusefs

import (
	"os"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/openfiles"
)

// flushBy is the close of a descriptor by a thread.
func (r *rig) flushBy(fh uint64, thread int) fuse.Status {
	return r.fs.Flush(nil, &fuse.FlushIn{InHeader: fuse.InHeader{Caller: fuse.Caller{Pid: uint32(thread)}}, Fh: fh})
}

// versions counts those of a path.
func (r *rig) versions(path string) (n int) {
	r.Helper()
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			if v.Path == path {
				n++
			}
		}
	}
	return n
}

// TestEmptiedByUnknown: what was only emptied is committed when its descriptor is
// closed by a process that has no other, and when its handle is released where that
// process cannot be seen.
func TestEmptiedByUnknown(t *testing.T) {
	const beyond = 1 << 30 // no process has such a number
	for _, by := range []struct {
		name   string
		thread int
		blind  bool
		at     int // versions there are when the descriptor has been closed
	}{
		{"a process", os.Getpid(), false, 2},
		{"a process of another namespace", 0, false, 1},
		{"a process that /proc does not have", beyond, false, 1},
		{"a process where /proc is of another namespace", os.Getpid(), true, 1},
	} {
		t.Run(by.name, func(t *testing.T) {
			r := newRig(t, "/f")
			if by.blind {
				r.fs.openFiles = &openfiles.Scanner{}
			}
			fh := r.mustOpen("/f", syscall.O_WRONLY|syscall.O_TRUNC)
			if status := r.flushBy(fh, by.thread); !status.Ok() {
				t.Errorf("close: %v", status)
			}
			if n := r.versions("/f"); n != by.at {
				t.Errorf("%d versions after the close, want %d", n, by.at)
			}
			r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
			r.wantStored("/f", "")
		})
	}
}
