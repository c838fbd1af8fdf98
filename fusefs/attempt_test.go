package fusefs

import (
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestWriteBeyondBudget: a program that gets EDQUOT in the middle of a text commits no part of
// it.
func TestWriteBeyondBudget(t *testing.T) {
	const old = "old\n"
	page := strings.Repeat("x", 4096-len(old))
	for name, flags := range map[string]uint32{
		"emptied":  syscall.O_WRONLY | syscall.O_TRUNC,
		"replaced": syscall.O_WRONLY,
		"appended": syscall.O_WRONLY | syscall.O_APPEND,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.must(errOf(r.save("/f", old, 0)))
			n := r.s.tree.FindLocked("/f")
			other, _ := r.open(n.ID(), syscall.O_WRONLY|syscall.O_APPEND)
			fh, status := r.open(n.ID(), flags)
			r.must(errOf(status))
			write := func(offset uint64, text string) fuse.Status {
				in := &fuse.WriteIn{InHeader: header(n.ID()), Fh: fh, Offset: offset, Flags: flags}
				in.Pid = 1 << 30 // no process
				_, status := r.fs.Write(nil, in, []byte(text))
				return status
			}
			r.must(errOf(write(uint64(len(old)), page))) // one write is two requests
			limit := r.budget().limit
			r.budget().limit = r.budget().held
			if status := write(4096, strings.Repeat("y", 90_000)); status != fuse.Status(syscall.EDQUOT) {
				t.Fatalf("the write ended with %v", status)
			}
			r.budget().limit = limit
			if status := write(4096, "rest\n"); status != fuse.Status(syscall.EDQUOT) {
				t.Errorf("the rest ended with %v, though its beginning is gone", status)
			}
			for what, call := range map[string]func() fuse.Status{
				"fsync": func() fuse.Status { return r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}) },
				"close": func() fuse.Status { return r.flushBy(fh, 1<<30) },
			} {
				if status := call(); status != fuse.Status(syscall.EDQUOT) {
					t.Errorf("%s ended with %v", what, status)
				}
			}
			r.release(fh)
			r.release(other)
			r.wantCounted()
			r.wantStored("/f", old)
		})
	}
}
