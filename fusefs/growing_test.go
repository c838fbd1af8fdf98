package fusefs

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestAppendedWithoutClose: what was appended to a file that stays open is committed
// when nothing more comes, and now and then while more comes.
func TestAppendedWithoutClose(t *testing.T) {
	const flags = syscall.O_WRONLY | syscall.O_APPEND
	t.Run("idle", func(t *testing.T) {
		r := newRig(t, "/f")
		fh := r.mustOpen("/f", flags)
		r.appendTo(fh, "+1")
		if !r.commitAppended(time.Now()) {
			t.Error("nothing is waiting")
		}
		r.wantStored("/f", "/f")
		r.write("/f", "theirs")
		r.commitAppended(time.Now().Add(r.patience().idle))
		r.wantStored("/f", "theirs+1")
		if r.commitAppended(time.Now()) {
			t.Error("something is waiting")
		}
	})
	t.Run("growing", func(t *testing.T) {
		r := newRig(t, "/f")
		r.patience().idle = time.Hour
		fh := r.mustOpen("/f", flags)
		r.writeAt(fh, 1, syscall.O_APPEND, 0, "+1")
		r.writeAt(fh, 1, syscall.O_APPEND, uint64(os.Getpagesize())-2, "+2") // of which more may come
		r.commitAppended(time.Now().Add(r.patience().growing))
		r.wantStored("/f", "/f+1")
		r.flushBy(fh, 1)
		r.wantStored("/f", "/f+1+2")
	})
	t.Run("in an outage", func(t *testing.T) {
		r := newRig(t, "/f")
		fh := r.mustOpen("/f", flags)
		r.appendTo(fh, "+1")
		later := time.Now().Add(r.patience().idle)
		r.log.SetFate(func() logfault.Fate { return logfault.Unmade })
		r.commitAppended(later)
		r.log.SetFate(nil)
		r.commitAppended(later)
		r.wantStored("/f", "/f") // it is not tried all the time
		r.appendTo(fh, "+2")
		r.commitAppended(later.Add(r.patience().growing))
		r.wantStored("/f", "/f+1+2")
		if status := r.close(fh); status != fuse.OK {
			t.Errorf("close: %v", status)
		}
	})
	t.Run("by itself", func(t *testing.T) {
		r := newRig(t, "/f")
		r.patience().idle = time.Millisecond
		r.followAppends()
		fh := r.mustOpen("/f", flags)
		for _, want := range []string{"/f+", "/f++"} {
			r.appendTo(fh, "+")
			for deadline := time.Now().Add(10 * time.Second); !r.inHistory(want); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s is not committed", want)
				}
			}
		}
	})
}
