package fusefs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestRenameOfWhatTheKernelDoesNotKnow renames a file that another session has
// changed, before the kernel has heard of that: it takes the old one for what has
// the new name, and must be told.
func TestRenameOfWhatTheKernelDoesNotKnow(t *testing.T) {
	r := newRig(t, "/d/f")
	q := r.fs.notify
	r.must(r.s.walk(t.Context()))
	for _, told := range []bool{true, false} {
		r.wantLookup("/d/f", fuse.OK)
		r.write("/d/f", fmt.Sprint("told: ", told))
		r.follow()
		if told {
			q.sent = q.queued
		}
		q.pending = nil
		if status := r.rename("/d/f", "/d/g", 0); !status.Ok() {
			t.Fatal(status)
		}
		dir := r.s.root.children["d"].id
		if slices.Contains(q.pending, notice{node: dir, name: "g"}) == told {
			t.Errorf("told of the change: %v; notices of the rename: %v", told, q.pending)
		}
		if status := r.rename("/d/g", "/d/f", 0); !status.Ok() {
			t.Fatal(status)
		}
	}
}

// TestCloseTellsWhatTheOpenHeard closes a lock file, for the making of which the
// mount has heard of another session's change: the kernel has taken that in then,
// also where it was late to.
func TestCloseTellsWhatTheOpenHeard(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			r := newRig(t, "/d/f")
			r.must(r.s.walk(t.Context()))
			r.readOnce("/d/f")
			r.log.Next(logfault.BeforeTip, func() { r.write("/d/f", "theirs"); r.follow() })
			fh := r.dirty("/d/.#f", "mine")
			q := r.fs.notify
			q.closed = false // now there is a kernel to wait for
			name := slices.IndexFunc(q.pending, func(n notice) bool { return n.name == "f" })
			if late {
				q.sent, q.late[uint64(name)+1] = q.queued, true
			}
			var told atomic.Bool
			go func() {
				time.Sleep(20 * time.Millisecond)
				told.Store(true)
				q.mu.Lock()
				q.sent = q.queued
				q.mu.Unlock()
				q.taken(uint64(name) + 1)
				q.progress.Broadcast()
			}()
			if status := r.close(fh); !status.Ok() || !told.Load() {
				t.Errorf("closed: %v, and the kernel was told: %v", status, told.Load())
			}

			done := r.locked()
			q.content(r.s.find("/d/f"))
			done()
			fh = r.dirty("/d/.#g", "mine")
			if heard := r.handle(fh).heard; heard.after < heard.upTo {
				t.Errorf("the close of a file for which nothing was heard would wait for notices %+v", heard)
			}
			r.close(fh)
		})
	}
}
