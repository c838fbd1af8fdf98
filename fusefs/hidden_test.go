package fusefs

import (
	"fmt"
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

// TestRenameOverUnreadBackup renames over the last name of a memory that another session
// has changed, which this one has not read.
func TestRenameOverUnreadBackup(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/f")
	r.write("/f", "theirs")
	r.follow()
	if status := r.rename("/f", "/f~", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.close(r.dirty("/x~", "x"))
	if status := r.unlink("/f~"); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("unlink: %v, want ESTALE", status)
	}
	if status := r.rename("/x~", "/f~", 0); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("rename over it: %v, want ESTALE", status)
	}
	if _, data, err := r.other.Read(t.Context(), "/f"); err != nil || string(data) != "theirs" {
		t.Errorf("the log has %q (%v)", data, err)
	}
}

// TestUnlinkBackup removes a backup whose memory another session changes, removes or
// moves meanwhile: the backup is gone, and what they did stays.
func TestUnlinkBackup(t *testing.T) {
	for name, theirs := range map[string]func(*rig){
		"removed": func(r *rig) { r.remove("/a") },
		"changed": func(r *rig) { r.write("/a", "theirs") },
		"moved":   func(r *rig) { r.move("/a", "/q") },
	} {
		for _, followed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, followed), func(t *testing.T) {
				r := newRig(t, "/a")
				r.must(r.s.walk(t.Context()))
				r.hide("/a", "/a~")
				r.log.early = func() {
					theirs(r)
					if followed {
						r.follow()
					}
				}
				if status := r.unlink("/a~"); !status.Ok() {
					t.Errorf("unlink: %v", status)
				}
				r.wantLookup("/a~", fuse.ENOENT)
				r.wantAsLog()
			})
		}
	}
}

// TestEditedBackupMoves renames an edited backup to a memory's name while another session
// puts a memory where the backup is: what was edited is kept.
func TestEditedBackupMoves(t *testing.T) {
	r := newRig(t, "/a")
	r.keep()
	r.must(r.s.walk(t.Context()))
	r.hide("/a", "/a~")
	r.close(r.dirtyWith("/a~", "edited", syscall.O_WRONLY|syscall.O_TRUNC))
	r.log.early = func() { r.write("/a~", "theirs"); r.follow() }
	if status := r.rename("/a~", "/c", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	r.stop()
	r.fs.tasks.Wait()
	if !r.kept("edited") {
		t.Error("what was edited is not kept")
	}
}

// TestHiddenBelowWhatIsDisplaced hides a memory of a directory in whose place another
// session puts a file, of which the heads tell that load.
func TestHiddenBelowWhatIsDisplaced(t *testing.T) {
	r := newRig(t, "/d/a")
	r.hide("/d/a", "/a~")
	r.remove("/d/a")
	r.write("/d", "file")
	r.must(r.s.walk(t.Context()))
	r.follow()
	r.remove("/d")
	r.write("/a~/x", "theirs")
	r.follow()
	if wrong := r.differs(); wrong != "" {
		t.Error(wrong)
	}
}

// TestRenameDirWithoutWhatIsHidden renames a directory, of which a memory is hidden that
// another session has moved out of it.
func TestRenameDirWithoutWhatIsHidden(t *testing.T) {
	r := newRig(t, "/d/a", "/d/b")
	r.must(r.s.walk(t.Context()))
	r.hide("/d/a", "/a~")
	r.log.early = func() { r.move("/d/a", "/z") }
	if status := r.rename("/d", "/e", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	if wrong := r.differs(); wrong != "" {
		t.Error(wrong)
	}
}
