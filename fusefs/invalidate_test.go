package fusefs

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// TestRenameOfWhatTheKernelDoesNotKnow renames a file that another session has changed, before
// the kernel has heard of that: it takes the old one for the file that has the new name, and must
// be told.
func TestRenameOfWhatTheKernelDoesNotKnow(t *testing.T) {
	for _, told := range []bool{true, false} {
		r := newRig(t, "/d/f")
		r.must(r.s.tree.Walk(t.Context()))
		r.keepNotices()
		kernel := &fakeKernel{}
		r.wantLookup("/d/f", fuse.OK)
		r.write("/d/f", "theirs")
		r.follow()
		if told {
			r.give(kernel)
			r.awaitNotices()
		}
		if status := r.rename("/d/f", "/d/g", 0); !status.Ok() {
			t.Fatal(status)
		}
		if !told {
			r.give(kernel)
		}
		r.awaitNotices()
		if kernel.forgot(r.s.tree.Root().ChildLocked("d").ID(), "g") == told {
			t.Errorf("told of the change: %v; of the rename: %v", told, !told)
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
			r.keepNotices()
			r.must(r.s.tree.Walk(t.Context()))
			r.readOnce("/d/f")
			r.log.Next(logfault.BeforeTip, func() { r.write("/d/f", "theirs"); r.follow() })
			fh := r.dirty("/d/.#f", "mine")
			var told atomic.Bool
			r.give(&fakeKernel{before: func(name string) {
				if name != "f" {
					return
				}
				time.Sleep(10 * time.Millisecond)
				if late { // what other inodes are told is taken in before
					const other = 1 << 40
					for number := r.notices().Content(other); !r.notices().Told(number); {
						time.Sleep(time.Millisecond)
					}
				}
				told.Store(true)
			}})
			if status := r.close(fh); !status.Ok() || !told.Load() {
				t.Errorf("closed: %v, and the kernel was told: %v", status, told.Load())
			}

			done := r.locked()
			r.notices().contentLocked(r.s.tree.FindLocked("/d/f"))
			done()
			fh = r.dirty("/d/.#g", "mine")
			if heard := r.handle(fh).heard; heard.after < heard.upTo {
				t.Errorf("the close of a file for which nothing was heard would wait for notices %+v", heard)
			}
			r.close(fh)
		})
	}
}
