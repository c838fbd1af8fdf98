package fusefs

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// hide reads a memory and renames it as an editor does that makes a backup.
func (r *rig) hide(path, backup string) {
	r.Helper()
	r.readOnce(path)
	if status := r.rename(path, backup, 0); !status.Ok() {
		r.Fatal(status)
	}
}

// TestHiddenYields saves, where this mount hides a memory that another session has
// changed, what cannot be merged with that: what they wrote is there.
func TestHiddenYields(t *testing.T) {
	r := newRig(t, "/a")
	r.fs.opts.Merge = true
	r.must(r.s.walk(t.Context()))
	r.readOnce("/a")
	r.write("/a", "theirs")
	r.follow()
	if status := r.rename("/a", "/a~", 0); !status.Ok() { // an editor that has read what was before
		t.Fatal(status)
	}
	if status := r.save("/a", "mine", syscall.O_EXCL); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("save: %v, want ESTALE", status)
	}
	r.wantText("/a", "theirs")
}

// TestHiddenMovesWhereItsNameIsTaken renames a backup to a memory's name while another
// session puts a memory where the backup is: that one stays.
func TestHiddenMovesWhereItsNameIsTaken(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.hide("/a", "/a~")
	r.log.early = func() {
		r.write("/a~", "theirs")
		r.follow()
	}
	if status := r.rename("/a~", "/c", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.wantText("/c", "/a")
	r.wantText("/a~", "theirs")
	r.wantLookup("/a", fuse.ENOENT)
	r.wantAsLog()
}

// TestUnlinkLeavesWhatIsElsewhere removes a file that the session has not read, while
// another session moves it and makes another in its place: what was moved stays.
func TestUnlinkLeavesWhatIsElsewhere(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/a", fuse.OK)
	r.log.early = func() {
		r.move("/a", "/z")
		r.write("/a", "anew")
		r.follow()
	}
	if status := r.unlink("/a"); !status.Ok() {
		t.Fatal(status)
	}
	r.wantText("/z", "/a")
	r.wantLookup("/a", fuse.ENOENT)
	r.wantAsLog()
}
