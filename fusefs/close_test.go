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
	t.Run("appends", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other := r.mustOpen("/f", appending), r.mustOpen("/f", appending)
		r.writeAt(other, 2, syscall.O_APPEND, 0, "+other")
		r.writeAt(mine, 1, syscall.O_APPEND, pageEnd-3, "+mi")
		if status := r.flushBy(other, 2); !status.Ok() {
			t.Errorf("close: %v", status)
		}
		r.wantStored("/f", "/f+other")
		r.write("/f", "theirs")
		r.follow()
		r.writeAt(mine, 1, syscall.O_APPEND, 0, "ne")
		r.flushBy(mine, 1)
		r.wantStored("/f", "theirs+mine")
	})
	t.Run("an append that is put on top of another session's", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other := r.mustOpen("/f", appending), r.mustOpen("/f", appending)
		r.writeAt(other, 2, syscall.O_APPEND, 0, "+other")
		r.writeAt(mine, 1, syscall.O_APPEND, pageEnd-3, "+mi")
		r.log.Next(logfault.BeforeCommit, func() { r.write("/f", "theirs") })
		r.flushBy(other, 2)
		r.wantStored("/f", "theirs+other")
		r.writeAt(mine, 1, syscall.O_APPEND, 0, "ne")
		r.log.Next(logfault.BeforeCommit, func() { r.write("/f", "again") })
		r.flushBy(mine, 1)
		r.wantStored("/f", "again+mine")
	})
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
		upTo := r.leaves(third, 3) // of what has been committed
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
	t.Run("what is known to be whole", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other := r.mustOpen("/f", appending), r.mustOpen("/f", appending)
		r.writeAt(other, 2, syscall.O_APPEND, 0, "+1")
		r.writeAt(mine, 1, syscall.O_APPEND, 0, "+2") // which does not end with a page
		r.flushBy(other, 2)
		r.wantStored("/f", "/f+1+2")
		r.writeAt(other, 2, syscall.O_APPEND, 0, "+3")
		r.writeAt(mine, 2, syscall.O_APPEND, pageEnd-2, "+4") // by the thread that closes
		r.flushBy(other, 2)
		r.wantStored("/f", "/f+1+2+3+4")
	})
	t.Run("nothing through the handle", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other := r.mustOpen("/f", appending), r.mustOpen("/f", appending)
		r.writeAt(mine, 1, syscall.O_APPEND, pageEnd-3, "+mi")
		r.close(other)
		r.wantStored("/f", "/f")
		r.writeAt(mine, 1, syscall.O_APPEND, 0, "ne")
		r.fs.Release(nil, &fuse.ReleaseIn{Fh: mine})
		r.wantStored("/f", "/f+mine")
	})
	t.Run("cut through the handle", func(t *testing.T) {
		r := newRig(t, "/f")
		mine, other := r.mustOpen("/f", appending), r.mustOpen("/f", syscall.O_WRONLY)
		r.writeAt(mine, 1, syscall.O_APPEND, 0, "+mine")
		in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{
			InHeader: header(r.wantLookup("/f", fuse.OK).NodeId), Valid: fuse.FATTR_SIZE | fuse.FATTR_FH, Fh: other, Size: 1,
		}}
		if status := r.fs.SetAttr(nil, in, &fuse.AttrOut{}); !status.Ok() {
			t.Errorf("ftruncate: %v", status)
		}
		r.close(other)
		r.wantStored("/f", "/")
	})
	t.Run("a mapping", func(t *testing.T) {
		r := newRig(t, "/f")
		guessed, other := r.mustOpen("/f", syscall.O_RDWR), r.mustOpen("/f", syscall.O_RDWR)
		in := &fuse.WriteIn{Fh: guessed, WriteFlags: fuse.WRITE_CACHE}
		if _, status := r.fs.Write(nil, in, []byte("it")); !status.Ok() {
			t.Errorf("write: %v", status)
		}
		r.close(other)
		r.wantStored("/f", "it")
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
