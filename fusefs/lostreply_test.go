package fusefs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

// fsync syncs a file, and wants to be told how that ends.
func (r *rig) fsync(fh uint64, want fuse.Status) {
	r.Helper()
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); status != want {
		r.Fatalf("fsync: %v, want %v", status, want)
	}
}

// unmade makes all commits fail.
func (r *rig) unmade() { r.log.SetFate(func() logfault.Fate { return logfault.Unmade }) }

// TestUnsureIsBounded fails to commit many files, which are closed and gone.
func TestUnsureIsBounded(t *testing.T) {
	r := newRig(t)
	r.unmade()
	for i := range 100 {
		if status := r.close(r.dirty(fmt.Sprint("/f", i), "text")); status != fuse.EIO {
			t.Fatal(status)
		}
	}
	if n, _ := r.unsettled(); n > 64 {
		t.Errorf("%d drafts are kept with their bytes, of files that are closed and gone", n)
	}
}

// TestOwedIsBounded loses the replies of many renames that are not in the log.
func TestOwedIsBounded(t *testing.T) {
	r := newRig(t, "/f")
	r.follow()
	r.unmade()
	for range 100 {
		if status := r.rename("/f", "/g", 0); status != fuse.EIO {
			t.Fatal(status)
		}
	}
	if _, n := r.unsettled(); n > 64 {
		t.Errorf("%d commits are remembered that may be in the log", n)
	}
}

// TestDraftIsSettledOnceByTwo loses the reply of an append, appends more and syncs again,
// while the follower meets the commit, and another session appends, too: each of the two
// may be the first to know.
func TestDraftIsSettledOnceByTwo(t *testing.T) {
	r := newRig(t)
	for file := range 40 { // each save reads all of a file, which therefore stays short
		path := fmt.Sprint("/f", file)
		fh := r.dirtyWith(path, "", syscall.O_WRONLY|syscall.O_APPEND)
		var want []string
		for i := range 50 {
			one, two := fmt.Sprintln("one", i), fmt.Sprintln("two", i)
			r.appendTo(fh, one)
			r.log.SetFates(logfault.Unheard)
			r.fsync(fh, fuse.EIO)
			r.appendTo(fh, two)
			want = append(want, one, two)
			done := make(chan bool)
			go func() {
				defer close(done)
				for began, delay := time.Now(), rand.N(20*time.Microsecond); time.Since(began) < delay; {
				}
				r.follow()
				head, data, err := r.other.Read(t.Context(), path)
				if err != nil {
					t.Error(err)
				}
				_, _ = r.other.Write(t.Context(), path, append(data, "theirs\n"...), versionlog.ExpectVersion(head.ID))
			}()
			r.fsync(fh, fuse.OK)
			<-done
			r.follow()
		}
		_, data, err := r.other.Read(t.Context(), path)
		r.must(err)
		for _, line := range want {
			if n := strings.Count(string(data), line); n != 1 {
				t.Errorf("%s has %q %d times", path, line, n)
			}
		}
	}
}
