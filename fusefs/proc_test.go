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

// TestLookIsBounded: a process with many descriptors is not looked through to the end.
// What has not been seen is unknown.
func TestLookIsBounded(t *testing.T) {
	const nowhere = 1 << 40 // no file has such a number
	r := newRig(t)
	self := uint64(os.Getpid())
	for range 300 {
		f, err := os.Open(os.DevNull)
		r.must(err)
		defer f.Close()
	}
	own := 0 // descriptors
	for _, test := range []struct {
		name string
		look func(*look) answer
		want answer
	}{
		{"to the end", func(l *look) answer {
			l.descriptors, l.ends = 1<<20, time.Hour
			open := l.hasOpen(self)
			own = 1<<20 - l.descriptors
			return open
		}, no},
		{"at fewer descriptors than there are", func(l *look) answer {
			l.descriptors, l.ends = 300, time.Hour
			return l.hasOpen(self)
		}, unknown},
		{"for too long", func(l *look) answer {
			l.ends = 0
			return l.hasOpen(self)
		}, unknown},
		{"at no ancestors", func(l *look) answer {
			l.descriptors, l.ends = own, time.Hour
			return l.writtenOn(self)
		}, unknown},
	} {
		if got := r.fs.withLook(self, nowhere, test.look); got != test.want {
			t.Errorf("a look %s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestLooksOfOneProcess: of two looks for threads of one process the second waits for
// the first; another process's does not.
func TestLooksOfOneProcess(t *testing.T) {
	l := looks{of: map[string]*oneLook{}}
	self := uint64(os.Getpid())
	end := l.begin(self)
	l.begin(uint64(os.Getppid()))()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		l.begin(self)()
	}()
	for users := 0; users < 2; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		for _, one := range l.of {
			users = one.users
		}
		l.mu.Unlock()
	}
	select {
	case <-waited:
		t.Error("two looks are taken for one process")
	default:
	}
	end()
	<-waited
	if len(l.of) != 0 {
		t.Errorf("%d processes are remembered", len(l.of))
	}
}
