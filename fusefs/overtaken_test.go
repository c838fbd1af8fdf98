package fusefs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/session/conflict"
)

// TestRefusedBytesStayRefused renames a file over another while what was written to
// it is refused: closing it commits nothing.
func TestRefusedBytesStayRefused(t *testing.T) {
	r := newRig(t, "/a", "/b")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/a")
	r.readOnce("/b")
	r.write("/a", "theirs")
	r.follow()
	entry := r.wantLookup("/a", fuse.OK)
	fh, status := r.open(entry.NodeId, syscall.O_RDWR)
	if !status.Ok() {
		t.Fatal(status)
	}
	if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("X")); status != fuse.Status(DefaultConflictErrno) {
		t.Fatalf("write without reading: %v, want a conflict", status)
	}
	if status := r.rename("/a", "/b", 0); !status.Ok() {
		t.Fatal(status)
	}
	if status := r.close(fh); status.Ok() {
		t.Errorf("close of a handle whose write was refused: %v", status)
	}
	r.wantText("/b", "theirs")
	r.wantAsLog()
}

// TestRenameTakesWhatHasTheName renames a file that another session has moved
// elsewhere, and made anew, meanwhile.
func TestRenameTakesWhatHasTheName(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/a", fuse.OK)
	r.log.Next(logfault.BeforeCommit, func() {
		r.move("/a", "/z")
		r.follow()
		r.write("/a", "anew")
		r.follow()
	})
	if status := r.rename("/a", "/c", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.wantAsLog()
	r.wantText("/c", "anew")
	r.wantText("/z", "/a")
}

// TestDisplacedIsRemembered reads a file that another session makes a directory, and a
// file again: it is another version.
func TestDisplacedIsRemembered(t *testing.T) {
	r := newRig(t, "/a")
	r.readOnce("/a")
	r.remove("/a")
	r.write("/a/b", "below")
	r.must(r.s.walk(t.Context()))
	r.follow()
	r.remove("/a/b")
	r.write("/a", "anew")
	r.follow()
	if status := r.save("/a", "mine", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("overwriting what was made anew: %v, want a conflict", status)
	}
}

// TestRenameDoesNotKnowWhatItFinds renames over a file that another session changes
// before the reply is here, while heads load.
func TestRenameDoesNotKnowWhatItFinds(t *testing.T) {
	r := newRig(t, "/f")
	r.readOnce("/f")
	r.saveTemporary("/f.tmp")
	r.log.Next(logfault.AfterCommit, func() {
		r.write("/f", "theirs")
		r.must(r.s.walk(t.Context()))
	})
	if status := r.rename("/f.tmp", "/f", 0); !status.Ok() {
		t.Fatal(status)
	}
	if status := r.save("/f", "edited", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("overwriting what the session has not seen: %v, want a conflict", status)
	}
	r.wantAsLog()
}

// TestUnlinkMeansTheName removes a file that another session moves elsewhere between
// the request's look at the tree and its commit.
func TestUnlinkMeansTheName(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/a", fuse.OK)
	n := r.s.find("/a") // Unlink has looked, and unlocked
	r.move("/a", "/z")
	r.follow()
	_ = r.s.remove(n, "/a") // Unlink goes on
	r.follow()
	r.wantText("/z", "/a")
}

// TestToldOfConflictSeesIt is refused with EBUSY, after which the kernel does not
// try again, and looks at what it was refused for.
func TestToldOfConflictSeesIt(t *testing.T) {
	for name, try := range map[string]func(*rig) fuse.Status{
		"unlink": func(r *rig) fuse.Status {
			return r.unlink("/f")
		},
		"rename over": func(r *rig) fuse.Status {
			return r.rename("/f.tmp", "/f", 0)
		},
		"rename to": func(r *rig) fuse.Status {
			return r.rename("/g", "/h", 0)
		},
		"rename from": func(r *rig) fuse.Status {
			return r.rename("/f", "/e", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/f", "/g", "/e")
			r.fs.opts.ConflictErrno = syscall.EBUSY
			r.must(r.s.walk(t.Context()))
			r.readOnce("/f")
			r.saveTemporary("/f.tmp")
			r.log.Next(logfault.BeforeCommit, func() { r.write("/f", "theirs"); r.write("/h", "theirs") })
			if status := try(r); status != fuse.EBUSY {
				t.Fatalf("%v, want EBUSY", status)
			}
			if name == "rename to" {
				r.wantText("/h", "theirs")
			} else {
				r.wantText("/f", "theirs")
			}
		})
	}
}

// TestHiddenComesBack hides a memory under a name that another session then takes.
func TestHiddenComesBack(t *testing.T) {
	for name, theirs := range map[string]string{"file": "/x~", "below": "/x~/y"} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprint(name, known), func(t *testing.T) {
				r := newRig(t, "/x")
				r.must(r.s.walk(t.Context()))
				id := r.wantLookup("/x", fuse.OK).NodeId
				if status := r.rename("/x", "/x~", 0); !status.Ok() {
					t.Fatal(status)
				}
				if !known {
					r.fs.Forget(id, 1)
				}
				r.write(theirs, "theirs")
				r.wantAsLog()
			})
		}
	}
}

// TestRefusedFileLeavesNoDirectory is refused a new file in a directory that another
// session has emptied.
func TestRefusedFileLeavesNoDirectory(t *testing.T) {
	r := newRig(t, "/d/f")
	r.must(r.s.walk(t.Context()))
	fh := r.dirty("/d/g", "\xff not text")
	r.remove("/d/f")
	r.follow()
	if status := r.close(fh); status.Ok() {
		t.Fatal(status)
	}
	r.wantAsLog()
}

// TestHideWhatIsGone makes a backup, in the place of an older one, of a file that another
// session removes or moves meanwhile.
func TestHideWhatIsGone(t *testing.T) {
	for name, theirs := range map[string]func(*rig){
		"removed": func(r *rig) { r.remove("/x") },
		"moved":   func(r *rig) { r.move("/x", "/z") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/x", "/y")
			r.must(r.s.walk(t.Context()))
			r.wantLookup("/x", fuse.OK)
			r.wantLookup("/y", fuse.OK)
			if status := r.rename("/y", "/x~", 0); !status.Ok() { // y's last name
				t.Fatal(status)
			}
			r.log.Next(logfault.BeforeCommit, func() { theirs(r); r.follow() })
			_ = r.rename("/x", "/x~", 0) // deletes y, then would hide x
			r.follow()
			if status := r.save("/x", "new", 0); !status.Ok() {
				t.Errorf("x is gone, and cannot be made anew: %v", status)
			}
			if name == "moved" {
				r.wantText("/z", "/x")
			}
		})
	}
}

// TestAppendToWhatIsDisplaced appends to a new file where another session makes a
// directory.
func TestAppendToWhatIsDisplaced(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	fh := r.appended("/a", "mine")
	r.write("/a/x", "theirs") // a directory where this session makes a file
	r.follow()
	if status := r.close(fh); status.Ok() {
		t.Error("the close succeeded")
	}
	r.wantAsLog()
}

// TestAppendToWhatIsHidden appends to a file that another session has changed, and that
// an editor of this mount has renamed to a backup.
func TestAppendToWhatIsHidden(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	fh := r.appended("/a", "mine")
	r.write("/a", "theirs ")
	r.follow()
	if status := r.rename("/a", "/a~", 0); !status.Ok() { // an editor's backup
		t.Fatal(status)
	}
	if status := r.close(fh); !status.Ok() {
		t.Errorf("close of what was appended: %v", status)
	}
}

// TestConflictThatIsOver is refused for a version that is removed before the reply is
// here.
func TestConflictThatIsOver(t *testing.T) {
	for name, flags := range map[string]uint32{"overwrite": syscall.O_WRONLY, "append": syscall.O_WRONLY | syscall.O_APPEND} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/f")
			r.must(r.s.walk(t.Context()))
			fh := r.dirtyWith("/f", "mine", flags)
			r.log.Next(logfault.BeforeCommit, func() { r.write("/f", "theirs") })
			r.log.Next(logfault.AfterCommit, func() { r.remove("/f"); r.follow() }) // before the reply, a conflict with theirs, is here
			status := r.close(fh)
			if name == "append" && !status.Ok() {
				t.Errorf("close of what was appended: %v", status)
			}
			r.wantAsLog()
		})
	}
}

// TestHiddenRemovedMadeAnew has read a memory, and hides it: another session removes it and
// makes it anew, which is another version.
func TestHiddenRemovedMadeAnew(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/a")
	if status := r.rename("/a", "/a~", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.remove("/a")
	r.follow()
	r.write("/a", "anew")
	r.follow()
	if status := r.save("/a", "mine", 0); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("overwriting what was made anew: %v, want a conflict", status)
	}
}

// TestRenameDirWithFileTurnedDirectory renames a directory while another session
// makes a directory of a file in it.
func TestRenameDirWithFileTurnedDirectory(t *testing.T) {
	r := newRig(t, "/d/a", "/d/n")
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/d/n", fuse.OK)
	r.log.Next(logfault.BeforeCommit, func() { r.remove("/d/n"); r.write("/d/n/x", "theirs") })
	if status := r.rename("/d", "/e", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	r.wantLookup("/e/n/x", fuse.OK)
	r.wantAsLog()
}

// TestWriteAfterRefusalAndUnlink writes on to a file whose writes are refused, and
// that has been removed.
func TestWriteAfterRefusalAndUnlink(t *testing.T) {
	r := newRig(t, "/a")
	r.fs.notify.sent = 1 << 40 // a kernel that takes every notice in at once
	r.must(r.s.walk(t.Context()))
	r.readOnce("/a")
	r.write("/a", "theirs")
	r.follow()
	fh, status := r.open(r.wantLookup("/a", fuse.OK).NodeId, syscall.O_RDWR)
	if !status.Ok() {
		t.Fatal(status)
	}
	if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("mine")); status != fuse.Status(DefaultConflictErrno) {
		t.Fatal(status)
	}
	r.readOnce("/a") // another program reads it, and removes it
	if status := r.unlink("/a"); !status.Ok() {
		t.Fatal(status)
	}
	_, _ = r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("mine again"))
	r.close(fh)
	r.wantAsLog()
}

// TestAppendWhileNothingIsFollowed appends to a file that another session has
// changed, and then removed, which the mount does not hear of: what the log
// answers is enough.
func TestAppendWhileNothingIsFollowed(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	fh := r.appended("/f", "mine")
	r.write("/f", "theirs")
	r.follow()
	r.remove("/f")
	if status := r.close(fh); !status.Ok() {
		t.Errorf("close of what was appended: %v", status)
	}
	r.wantAsLog()
	r.wantText("/f", "mine")
}

// TestAppendWithoutProgress appends to a file that the log has and the tree,
// wrongly, has not: when the same version has stood against it often enough, it
// loses.
func TestAppendWithoutProgress(t *testing.T) {
	r := newRig(t, "/f")
	r.keep()
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/f", fuse.OK)
	r.fs.mu.Lock()
	r.fs.unlinked(r.s.find("/f"))
	r.fs.mu.Unlock()
	fh := r.appended("/f", "mine")
	if status := r.close(fh); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("close: %v, want a conflict", status)
	}
	if n := r.s.tries.Load(); n > 3*maxAlike { // when it is closed, and when it is released
		t.Errorf("%d commits were tried", n)
	}
	if !r.kept("mine") {
		t.Error("what was appended is not kept")
	}
}

// TestEndCommitsEveryStage ends the mount while a program appends to a file that
// another one of the session has opened to write it, knowing another version.
func TestEndCommitsEveryStage(t *testing.T) {
	kept := conflict.New(t.TempDir())
	r := newRig(t, "/f")
	r.s.kept = kept
	r.fs.notify.sent = 1 << 40 // a kernel that takes every notice in at once
	r.must(r.s.walk(t.Context()))
	r.wantText("/f", "/f")
	r.write("/f", "theirs\n")
	r.follow()
	entry := r.wantLookup("/f", fuse.OK)
	r.appended("/f", "mine\n")
	if _, status := r.open(entry.NodeId, syscall.O_RDWR); !status.Ok() {
		t.Fatal(status)
	}
	r.fs.commitAll()
	_, data, err := r.other.Read(t.Context(), "/f")
	r.must(err)
	ids, err := kept.IDs()
	r.must(err)
	if string(data) != "theirs\nmine\n" && len(ids) == 0 {
		t.Errorf("the log has %q, and nothing is kept", data)
	}
}

// TestScratchMovesWhereFileIs renames an editor's file in a directory where
// another session puts a file meanwhile.
func TestScratchMovesWhereFileIs(t *testing.T) {
	r := newRig(t, "/d/a")
	r.must(r.s.walk(t.Context()))
	r.close(r.dirty("/d/x~", "x"))
	dir := r.s.root.children["d"]
	in := &fuse.RenameIn{InHeader: header(dir.id), Newdir: dir.id}
	r.fs.mu.Lock()
	m, status := r.fs.newMove(in, dir, "x~", "y~") // Rename has looked, and unlocked
	r.fs.mu.Unlock()
	if !status.Ok() {
		t.Fatal(status)
	}
	r.remove("/d/a")
	r.write("/d", "file")
	r.follow()
	_ = r.fs.renameFile(m) // Rename goes on
	if r.s.made("/d") == nil {
		t.Error("the tree does not have the file")
	}
}

// TestRmdirOfWhatHasGained removes a directory in which another session has just
// made a file.
func TestRmdirOfWhatHasGained(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	root := header(r.s.root.id)
	if status := r.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: root, Mode: 0o755}, "d", &fuse.EntryOut{}); !status.Ok() {
		t.Fatal(status)
	}
	r.write("/d/a", "theirs")
	r.s.patience = time.Minute
	r.fs.tasks.Go(r.follow)
	if status := r.fs.Rmdir(nil, &root, "d"); status != fuse.Status(syscall.ENOTEMPTY) {
		t.Errorf("rmdir: %v, want ENOTEMPTY", status)
	}
	r.fs.tasks.Wait()
	r.wantAsLog()
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

			r.fs.mu.Lock()
			r.fs.notify.content(r.s.find("/d/f"))
			r.fs.mu.Unlock()
			fh = r.dirty("/d/.#g", "mine")
			if heard := r.fs.handles[fh].heard; heard.after < heard.upTo {
				t.Errorf("the close of a file for which nothing was heard would wait for notices %+v", heard)
			}
			r.close(fh)
		})
	}
}
