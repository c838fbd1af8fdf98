package fusefs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/session/conflict"
)

// TestNotKeptIsKeptLater: what lost while it could not be kept is kept with the close, or when
// the mount ends, if it can be kept by then.
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
