package fusefs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/session/conflict"
)

// TestNotKeptIsKeptLater: a text that lost while it could not be kept is kept with the close, or
// when the mount ends, if it can be kept at that time.
func TestNotKeptIsKeptLater(t *testing.T) {
	for _, end := range []func(r *rig, fh uint64){
		func(r *rig, fh uint64) { r.close(fh) },
		func(r *rig, _ uint64) { r.commitAll() },
	} {
		r := newRig(t, "/f")
		inTheWay := filepath.Join(t.TempDir(), "kept")
		r.must(os.WriteFile(inTheWay, nil, 0o600))
		r.keepIn(conflict.New(inTheWay))
		r.readOnce("/f")
		fh := r.dirty("/f", "mine")
		r.write("/f", "theirs")
		r.follow()
		if status := r.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); status != fuse.Status(DefaultConflictErrno) {
			t.Errorf("a close that loses: %v", status)
		}
		r.must(os.Remove(inTheWay))
		if end(r, fh); !r.kept("mine") {
			t.Error("it is not kept")
		}
	}
}

// TestTakenIsKeptLater: a text that was being written when a mount was taken over, and could not
// be kept then, is kept when the mount ends, if it can be kept at that time; or by the next
// process that takes the mount over.
func TestTakenIsKeptLater(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRig(t, "/f")
		journal := r.hand()
		r.dirty("/f", "mine")
		r.noteAnswer()
		next, left := r.takeOver(journal)
		inTheWay := filepath.Join(t.TempDir(), "kept")
		r.must(os.WriteFile(inTheWay, nil, 0o600))
		next.keepIn(conflict.New(inTheWay))
		if n := next.keepTaken(left...); n != 1 || !strings.Contains(next.errorsSay(), "could not be kept") {
			t.Errorf("%d wait, and nobody hears of it: %q", n, next.errorsSay())
		}
		if again {
			next, left = next.takeOver(next.hand())
		} else {
			left = nil
		}
		r.must(os.Remove(inTheWay))
		if n := next.keepTaken(left...); n > 0 || !next.kept("mine") {
			t.Errorf("it is not kept, and %d wait", n)
		}
	}
}
