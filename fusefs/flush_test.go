package fusefs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestWriteIsNotDivided: the close of a handle commits what was written through that
// handle and before, and nothing of a write(2) that came since and may not be whole.
func TestWriteIsNotDivided(t *testing.T) {
	const appending = syscall.O_WRONLY | syscall.O_APPEND
	pageEnd := uint64(os.Getpagesize())
	t.Run("while a commit is under way", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other, third := r.mustOpen("/f", appending), r.mustOpen("/f", appending), r.mustOpen("/f", appending)
		r.writeAt(third, 3, syscall.O_APPEND, 0, "+third")
		closed := make(chan fuse.Status)
		r.log.Next(logfault.BeforeCommit, func() {
			r.writeAt(other, 2, syscall.O_APPEND, 0, "+other")
			upTo := r.leaves(other, 2)
			r.writeAt(mine, 1, syscall.O_APPEND, pageEnd-3, "+mi")
			go func() { closed <- r.commitUpTo(other, upTo) }()
		})
		r.flushBy(third, 3)
		if status := <-closed; !status.Ok() {
			t.Errorf("close: %v", status)
		}
		r.wantStored("/f", "/f+third+other")
		r.flushBy(mine, 1)
		upTo := r.leaves(third, 3) // of the committed bytes
		r.writeAt(mine, 1, syscall.O_APPEND, pageEnd-3, "+mo")
		r.commitUpTo(third, upTo)
		r.wantStored("/f", "/f+third+other+mi")
	})
	t.Run("a file that is written from the start", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other := r.mustOpen("/f", syscall.O_WRONLY|syscall.O_TRUNC), r.mustOpen("/f", syscall.O_WRONLY)
		start := strings.Repeat(".", int(pageEnd)-4)
		r.writeAt(other, 2, 0, 0, start+"12")
		r.writeAt(mine, 1, 0, pageEnd-2, "34")
		r.flushBy(other, 2)
		r.wantStored("/f", start+"12")
		r.writeAt(mine, 1, 0, pageEnd, "56")
		r.writeAt(other, 2, 0, 0, "ab") // so that it cannot be told apart any more
		r.writeAt(mine, 1, 0, 0, "AB")
		r.flushBy(other, 2)
		r.wantStored("/f", "AB"+start[2:]+"123456")
	})
}

// TestCloseByAnotherThread: threads of one process speak for each other, and one whose
// writer is gone commits what that has written.
func TestCloseByAnotherThread(t *testing.T) {
	const gone = 1 << 30
	for _, writer := range []uint32{uint32(os.Getpid()), uint32(syscall.Gettid()), gone, 0} {
		for _, closer := range []int{os.Getpid(), syscall.Gettid(), gone, 0} {
			r := newRig(t, "/f")
			fh := r.mustOpen("/f", syscall.O_WRONLY)
			r.writeAt(fh, writer, 0, 0, "it")
			r.flushBy(fh, closer)
			r.wantStored("/f", "it")
		}
	}
}

// TestSyncBesideListing: fsync looks at all handles, also at that of the directory in which
// the stores are, which is in no store.
func TestSyncBesideListing(t *testing.T) {
	r := newRig(t, "/f")
	var root fuse.OpenOut
	if status := r.fs.OpenDir(nil, &fuse.OpenIn{InHeader: header(fuse.FUSE_ROOT_ID)}, &root); !status.Ok() {
		t.Fatal(status)
	}
	defer r.fs.ReleaseDir(&fuse.ReleaseIn{Fh: root.Fh})
	fh := r.appended("/f", "+mine")
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); !status.Ok() {
		t.Error(status)
	}
	r.wantStored("/f", "/f+mine")
}
