package fusefs

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

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
	if status := r.save("/a", "mine", syscall.O_EXCL); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("save: %v, want a conflict", status)
	}
	r.wantText("/a", "theirs")
}

// TestHiddenMovesWhereItsNameIsTaken renames a backup to a memory's name while another
// session puts a memory where the backup is: that one stays.
func TestHiddenMovesWhereItsNameIsTaken(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.hide("/a", "/a~")
	r.log.Next(logfault.BeforeCommit, func() {
		r.write("/a~", "theirs")
		r.follow()
	})
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
	r.log.Next(logfault.BeforeCommit, func() {
		r.move("/a", "/z")
		r.write("/a", "anew")
		r.follow()
	})
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
	if status := r.unlink("/f~"); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("unlink: %v, want a conflict", status)
	}
	if status := r.rename("/x~", "/f~", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("rename over it: %v, want a conflict", status)
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
				r.log.Next(logfault.BeforeCommit, func() {
					theirs(r)
					if followed {
						r.follow()
					}
				})
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
	r.log.Next(logfault.BeforeCommit, func() { r.write("/a~", "theirs"); r.follow() })
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
	for _, removed := range []bool{false, true} {
		r := newRig(t, "/d/a")
		r.hide("/d/a", "/a~")
		if removed {
			r.rmdir("/d")
		}
		r.remove("/d/a")
		r.write("/d", "file")
		r.must(r.s.walk(t.Context()))
		r.wantText("/d", "file")
		if wrong := r.s.findHidden("/d/a"); wrong != nil {
			t.Error("a file hides something")
		}
		r.follow()
		r.remove("/d")
		r.write("/a~/x", "theirs")
		r.follow()
		if wrong := r.differs(); wrong != "" {
			t.Error(wrong)
		}
	}
}

// TestRenameDirWithoutWhatIsHidden renames a directory, of which a memory is hidden that
// another session has moved out of it.
func TestRenameDirWithoutWhatIsHidden(t *testing.T) {
	r := newRig(t, "/d/a", "/d/b")
	r.must(r.s.walk(t.Context()))
	r.hide("/d/a", "/a~")
	r.log.Next(logfault.BeforeCommit, func() { r.move("/d/a", "/z") })
	if status := r.rename("/d", "/e", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	if wrong := r.differs(); wrong != "" {
		t.Error(wrong)
	}
}

// wantOp compares what made a memory what it is.
func (r *rig) wantOp(path string, want versionlog.Op) {
	r.Helper()
	if v, err := r.other.Head(r.Context(), path); err != nil || v.Op != want {
		r.Errorf("%s was %s (%v), want %s", path, v.Op, err, want)
	}
}

// TestRemoveDirOfHidden removes a directory whose memories are all hidden, and
// goes on from there.
func TestRemoveDirOfHidden(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*rig)
		want []string // in the log
	}{
		"nothing more":       {func(*rig) {}, []string{"/b/x", "/d/s/f", "/d/s/g"}},
		"backup removed":     {func(r *rig) { r.unlink("/b/f~") }, []string{"/b/x", "/d/s/g"}},
		"backups removed":    {func(r *rig) { r.unlink("/b/f~"); r.unlink("/b/g~") }, []string{"/b/x"}},
		"backup named again": {func(r *rig) { r.rename("/b/f~", "/b/f", 0) }, []string{"/b/f", "/b/x", "/d/s/g"}},
		"made again": {func(r *rig) { r.mkdir("/d"); r.wantNames("/d"); r.mkdir("/d/s"); r.wantNames("/d/s") },
			[]string{"/b/x", "/d/s/f", "/d/s/g"}},
		"come back": {func(r *rig) {
			r.mkdir("/d")
			r.mkdir("/d/s")
			r.rename("/b/f~", "/d/s/f", 0)
			r.wantText("/d/s/f", "/d/s/f")
			r.wantNames("/b", "g~", "x")
		}, []string{"/b/x", "/d/s/f", "/d/s/g"}},
		"made again by a rename": {func(r *rig) { r.mkdir("/e"); r.mkdir("/e/s"); r.rename("/e", "/d", 0); r.wantNames("/d/s") }, []string{"/b/x"}},
		"replaced": {func(r *rig) {
			r.mkdir("/d")
			r.mkdir("/e")
			r.save("/e/y", "y", 0)
			r.rename("/e", "/d", 0)
			r.wantText("/d/y", "y")
		},
			[]string{"/b/x", "/d/y"}},
		"a file instead": {func(r *rig) { r.save("/d", "file", 0); r.wantText("/d", "file") }, []string{"/b/x", "/d"}},
		"a renamed file": {func(r *rig) { r.rename("/b/x", "/d", 0); r.wantText("/d", "/b/x") }, []string{"/d"}},
		"a backup instead": {func(r *rig) {
			r.rename("/b/f~", "/d", 0)
			r.wantText("/d", "/d/s/f")
			r.wantOp("/d", versionlog.OpRenamed)
		}, []string{"/b/x", "/d"}},
		"another by theirs": {func(r *rig) { r.write("/d/s/h", "h"); r.follow(); r.wantNames("/d/s", "h") }, []string{"/b/x", "/d/s/f", "/d/s/g", "/d/s/h"}},
		"changed by theirs": {func(r *rig) { r.write("/d/s/f", "theirs"); r.follow(); r.wantText("/d/s/f", "theirs") }, []string{"/b/x", "/d/s/f", "/d/s/g"}},
		"removed by theirs": {func(r *rig) { r.remove("/d/s/f"); r.remove("/d/s/g"); r.follow() }, []string{"/b/x"}},
		"a file by theirs": {func(r *rig) {
			r.remove("/d/s/f")
			r.remove("/d/s/g")
			r.write("/d", "d")
			r.follow()
			r.wantText("/d", "d")
		}, []string{"/b/x", "/d"}},
		"changed as a file is made": {func(r *rig) {
			r.log.Next(logfault.BeforeCommit, func() { r.write("/d/s/f", "theirs") })
			r.save("/d", "file", 0)
			r.wantText("/d/s/f", "theirs")
		}, []string{"/b/x", "/d/s/f", "/d/s/g"}},
		"above is renamed": {func(r *rig) { r.mkdir("/d"); r.rename("/d", "/e", 0); r.wantNames("/e") }, []string{"/b/x", "/e/s/f", "/e/s/g"}},
		"moved by theirs":  {func(r *rig) { r.move("/d/s/f", "/m"); r.follow(); r.wantText("/m", "/d/s/f") }, []string{"/b/x", "/d/s/g", "/m"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/d/s/f", "/d/s/g", "/b/x")
			r.must(r.s.walk(t.Context()))
			r.hide("/d/s/f", "/b/f~")
			r.hide("/d/s/g", "/b/g~")
			r.wantNames("/d/s")
			r.rmdir("/d/s")
			r.wantNames("/d")
			r.rmdir("/d")
			r.wantNames("/", "b")
			r.wantLookup("/d", fuse.ENOENT)
			c.then(r)
			r.follow()
			if wrong := r.differs(); wrong != "" {
				t.Error(wrong)
			}
			var got []string
			for v, err := range r.other.Heads(t.Context(), "/") {
				r.must(err)
				got = append(got, v.Path)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the log has %q, want %q", got, c.want)
			}
		})
	}
}
