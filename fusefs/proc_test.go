package fusefs

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
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
			r.fs.blind = by.blind
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

// TestLookIsBounded: a process with many descriptors is not looked through to the end,
// and nobody waits for long while another is looked at. What has not been seen is
// unknown.
func TestLookIsBounded(t *testing.T) {
	const nowhere = 1 << 40 // no file has such a number
	r := newRig(t)
	self := uint32(os.Getpid())
	want := func(name string, want answer) {
		t.Helper()
		if got := r.fs.hasOpen(self, nowhere); got != want {
			t.Errorf("%s: whether it has the file open is answered %v, want %v", name, got, want)
		}
	}
	most := func(l *look) *look {
		l.ends = time.Now().Add(time.Hour) // so that it does not depend on the machine
		return l
	}
	count := func(descriptors int) answer {
		return r.fs.withLook(nowhere, func(l *look) answer {
			l.descriptors = descriptors
			return most(l).hasOpen(uint64(self))
		})
	}
	if got := count(1 << 20); got != no {
		t.Errorf("a process that is looked through to the end: %v, want %v", got, no)
	}
	for range 300 {
		f, err := os.Open(os.DevNull)
		r.must(err)
		defer f.Close()
	}
	if got := count(300); got != unknown {
		t.Errorf("a process with more descriptors than are looked at: %v, want %v", got, unknown)
	}
	if got := r.fs.withLook(nowhere, func(l *look) answer { l.ends = time.Time{}; return l.hasOpen(uint64(self)) }); got != unknown {
		t.Errorf("a look that takes too long: %v, want %v", got, unknown)
	}
	own := 0
	r.fs.withLook(nowhere, func(l *look) answer {
		l.descriptors = 1 << 20
		most(l).hasOpen(uint64(self))
		own = 1<<20 - l.descriptors
		return no
	})
	if got := r.fs.withLook(nowhere, func(l *look) answer { l.descriptors = own; return most(l).writtenOn(uint64(self)) }); got != unknown {
		t.Errorf("ancestors that are not looked at: %v, want %v", got, unknown)
	}
	r.fs.looking <- struct{}{}
	want("while another is looked at", unknown)
	<-r.fs.looking
}
