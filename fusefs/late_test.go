package fusefs

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/versionlog"
)

// TestRenameOntoWhatIsNewer writes to what another session put where a file
// was renamed to, seen before the rename is.
func TestRenameOntoWhatIsNewer(t *testing.T) {
	r := newRig(t, "/f")
	var fh uint64
	r.log.Next(logfault.AfterCommit, func() {
		r.write("/g", "newer")
		fh = r.dirty("/g", "mine")
	})
	if status := r.rename("/f", "/g", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.wantLost(fh, "/g")
	r.must(r.s.walk(t.Context()))
	r.wantAsLog()
}

// TestRenameOfWhatIsMadeAnew renames a file that is being written, which another
// session deletes and makes anew, when the tree has seen only the former.
func TestRenameOfWhatIsMadeAnew(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	fh := r.dirty("/f", "mine")
	r.remove("/f")
	r.write("/f", "anew")
	r.log.Next(logfault.AfterCommit, func() {
		before := r.s.applied
		r.followWhile(func(c *versionlog.Commit) bool { return c.Seq == before+1 })
	})
	if status := r.rename("/f", "/g", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.follow()
	r.wantLost(fh, "/g")
	r.wantAsLog()
}

// TestLateCommitIsSeen has a commit turn up in the log whose writer was told
// that it failed, after the kernel has read what was there before.
func TestLateCommitIsSeen(t *testing.T) {
	u := newUnmounted(t)
	u.fs.notify.sent = 1 << 40 // a kernel that takes every notice in at once
	fh := u.create("f", syscall.O_WRONLY)
	u.write(fh, 0, 0, "one\n")
	u.fsync(fh, fuse.OK)
	u.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	u.follow()
	n := u.s.root.children["f"]
	open := func(flags uint32) (out fuse.OpenOut) {
		if status := u.fs.Open(nil, &fuse.OpenIn{InHeader: header(n.id), Flags: flags}, &out); !status.Ok() {
			t.Fatal(status)
		}
		return out
	}
	fh = open(syscall.O_WRONLY).Fh
	u.write(fh, 0, 0, "two\n")
	u.log.lose = 1
	if status := u.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); status != fuse.EIO {
		t.Fatalf("close: %v, want EIO", status)
	}
	u.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	open(syscall.O_RDONLY)
	if out := open(syscall.O_RDONLY); out.OpenFlags&fuse.FOPEN_KEEP_CACHE == 0 {
		t.Fatal("the kernel does not keep what it has read")
	}
	u.follow()
	u.check("/f", "two\n", 2)
	if out := open(syscall.O_RDONLY); out.OpenFlags&fuse.FOPEN_KEEP_CACHE != 0 {
		t.Error("the kernel keeps what was there before")
	}
}

// TestMadeWhereAnotherMovedAway makes a file that another session makes, too,
// and moves away before the commit; the tree sees that before the commit's
// reply. What is written on goes where the file was made, and who closes it
// waits until the kernel knows of it there.
func TestMadeWhereAnotherMovedAway(t *testing.T) {
	r := newRig(t)
	r.must(r.s.walk(t.Context()))
	fh := r.dirty("/f", "mine")
	r.write("/f", "theirs")
	_, err := r.other.Rename(t.Context(), "/f", "/g", nil)
	r.must(err)
	r.log.Next(logfault.AfterCommit, func() {
		r.followWhile(func(c *versionlog.Commit) bool { return c.Session != "mine" })
	})
	for _, text := range []string{"mine", "my own"} {
		if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte(text)); !status.Ok() {
			t.Fatal(status)
		}
		if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); !status.Ok() {
			t.Fatalf("fsync of %q: %v", text, status)
		}
	}
	if n := r.fs.handles[fh].node; n.now() != r.s.root.children["f"] {
		t.Error("the file's handle does not lead to what has its name")
	}
	r.wantAsLog()
}

// TestReleaseLeavesTheNextWriterAlone empties a file by an open that comes while
// the release of the last handle waits for a rename. The empty file is nobody's
// version.
func TestReleaseLeavesTheNextWriterAlone(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	fh := r.dirty("/f", "one")
	r.s.ops.Lock() // as a rename does
	released := make(chan struct{})
	go func() {
		defer close(released)
		r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	}()
	dropped := func() bool {
		defer r.looking()()
		return r.fs.handles[fh] == nil
	}
	for !dropped() {
		time.Sleep(time.Millisecond)
	}
	entry := r.wantLookup("/f", fuse.OK)
	next, status := r.open(entry.NodeId, syscall.O_WRONLY|syscall.O_TRUNC)
	if !status.Ok() {
		t.Fatal(status)
	}
	r.s.ops.Unlock()
	<-released
	if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: next}, []byte("two")); !status.Ok() {
		t.Fatal(status)
	}
	if status := r.fs.Flush(nil, &fuse.FlushIn{Fh: next}); !status.Ok() {
		t.Fatal(status)
	}
	var sizes []int64
	for c, err := range r.other.Commits(t.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			sizes = append(sizes, v.Size)
		}
	}
	if want := []int64{2, 3}; !slices.Equal(sizes, want) {
		t.Errorf("versions of %d bytes, want %d", sizes, want)
	}
}

// TestRenameOfWhatTheKernelDoesNotKnow renames a file that another session has
// changed, before the kernel has heard of that: it takes the old one for what has
// the new name, and must be told.
func TestRenameOfWhatTheKernelDoesNotKnow(t *testing.T) {
	r := newRig(t, "/d/f")
	r.must(r.s.walk(t.Context()))
	for _, told := range []bool{true, false} {
		r.wantLookup("/d/f", fuse.OK)
		r.write("/d/f", fmt.Sprint("told: ", told))
		r.follow()
		if told {
			r.fs.notify.sent = r.fs.notify.queued
		}
		r.fs.notify.pending = nil
		if status := r.rename("/d/f", "/d/g", 0); !status.Ok() {
			t.Fatal(status)
		}
		dir := r.s.root.children["d"].id
		if slices.Contains(r.fs.notify.pending, notice{node: dir, name: "g"}) == told {
			t.Errorf("told of the change: %v; notices of the rename: %v", told, r.fs.notify.pending)
		}
		if status := r.rename("/d/g", "/d/f", 0); !status.Ok() {
			t.Fatal(status)
		}
	}
}

// sentBack opens a file as the kernel knows it, whose second version another
// session has made since: it is sent to look the name up again.
func (r *rig) sentBack(path string, flags uint32) (former fuse.EntryOut) {
	r.Helper()
	former = r.wantLookup(path, fuse.OK)
	r.write(path, "second")
	r.follow()
	if _, status := r.open(former.NodeId, flags); status != fuse.Status(syscall.ESTALE) {
		r.Fatalf("open of the first version: %v, want ESTALE", status)
	}
	return former
}

// TestRetryEndsWithItsName opens a file that another session has changed, and
// whose name is gone when the kernel looks it up again. That its name comes back
// later does not make what the kernel knew of it current.
func TestRetryEndsWithItsName(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	entry := r.sentBack("/f", syscall.O_RDONLY)
	r.move("/f", "/g")
	r.follow()
	r.wantLookup("/f", fuse.ENOENT)
	r.move("/g", "/f")
	r.follow()
	if _, status := r.open(entry.NodeId, syscall.O_RDONLY); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("open of the former version by another call: %v, want ESTALE", status)
	}
}

// TestReaderGetsWhatTheNameMeant opens a file whose name changes twice, once
// before the kernel looks it up again and once after: who reads gets what the
// name meant in between, who writes has to begin anew.
func TestReaderGetsWhatTheNameMeant(t *testing.T) {
	for name, last := range map[string]func(*rig){
		"changed":             func(r *rig) { r.write("/f", "third") },
		"removed":             func(r *rig) { r.remove("/f") },
		"moved":               func(r *rig) { r.move("/f", "/g") },
		"changed and removed": func(r *rig) { r.write("/f", "third"); r.remove("/f") },
		"changed and moved":   func(r *rig) { r.write("/f", "third"); r.move("/f", "/g") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, flags := range []uint32{syscall.O_RDONLY, syscall.O_RDWR} {
				r := newRig(t, "/f")
				r.must(r.s.walk(t.Context()))
				r.sentBack("/f", flags)
				entry := r.wantLookup("/f", fuse.OK)
				last(r)
				r.follow()
				fh, status := r.open(entry.NodeId, flags)
				if flags != syscall.O_RDONLY {
					if status != fuse.Status(DefaultConflictErrno) { // the second try is the last
						t.Errorf("open of the second version for writing: %v, want a conflict", status)
					}
				} else if !status.Ok() {
					t.Errorf("open of the second version: %v", status)
				} else if got := r.read(entry.NodeId, fh); got != "second" {
					t.Errorf("the second version is read as %q", got)
				}
			}
		})
	}
}

// TestRetryIsLookedUp opens for appending, after a call that was sent to look its
// name up again and never did, as one does that a signal has ended. What the
// kernel has under the name by then is what that call met, whose place a rename
// of this mount's has moved.
func TestRetryIsLookedUp(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"nothing":             func(*rig) {},
		"a look at something": func(r *rig) { r.wantLookup("/b", fuse.OK) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/a", "/b")
			r.must(r.s.walk(t.Context()))
			entry := r.sentBack("/a", syscall.O_RDONLY)
			between(r)
			if status := r.rename("/a", "/c", 0); !status.Ok() {
				t.Fatal(status)
			}
			r.follow()
			for range 2 { // the kernel has what it knew as /a at /c until it is told otherwise
				if _, status := r.open(entry.NodeId, syscall.O_WRONLY|syscall.O_APPEND); status != fuse.Status(syscall.ESTALE) {
					t.Errorf("open of the former version by another call: %v, want ESTALE", status)
				}
			}
			if status := r.close(r.appended("/c", ", appended")); !status.Ok() {
				t.Fatal(status)
			}
			r.wantText("/c", "second, appended")
			r.wantAsLog()
		})
	}
}

// TestMovedAgainKnown renames what this mount has not told the kernel of yet, and
// what is gone while the rename is committed, to be made anew: the kernel has
// never named the node that moves, and has to be able to.
func TestMovedAgainKnown(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	r.wantLookup("/a", fuse.OK)
	r.write("/a", "changed")
	r.follow()
	r.log.Next(logfault.BeforeCommit, func() {
		r.remove("/a")
		r.follow()
		r.write("/a", "anew")
		r.follow()
	})
	if status := r.rename("/a", "/c", 0); !status.Ok() {
		t.Fatal(status)
	}
	r.wantAsLog()
	r.wantText("/c", "anew")
}

// TestRetryIsItsThreads opens for reading after a call that was sent to look its
// name up again and never did, when another thread has looked it up and one more
// change came since.
func TestRetryIsItsThreads(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.walk(t.Context()))
	entry := r.sentBack("/a", syscall.O_RDONLY)
	other := header(r.s.root.id)
	other.Pid = 2
	if status := r.fs.Lookup(nil, &other, "a", &entry); !status.Ok() {
		t.Fatal(status)
	}
	r.write("/a", "third")
	r.follow()
	if _, status := r.open(entry.NodeId, syscall.O_RDONLY); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("open of the second version by another call: %v, want ESTALE", status)
	}
}

// TestGoneIsSeenGone removes and moves what another session changes and removes
// meanwhile, of which the mount has seen only the former when its commit is
// refused: who is told that there is nothing finds nothing.
func TestGoneIsSeenGone(t *testing.T) {
	for name, try := range map[string]func(*rig) error{
		"unlink": func(r *rig) error {
			if status := r.unlink("/f"); status != fuse.ENOENT {
				return fmt.Errorf("unlink ended with %v, want ENOENT", status)
			}
			return nil
		},
		"rename": func(r *rig) error {
			if status := r.rename("/f", "/g", 0); status != fuse.Status(DefaultConflictErrno) {
				return fmt.Errorf("rename ended with %v, want a conflict", status)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/f")
			r.must(r.s.walk(t.Context()))
			r.s.patience = time.Minute
			r.wantLookup("/f", fuse.OK)
			r.log.Next(logfault.BeforeCommit, func() {
				r.write("/f", "changed")
				changed, err := r.other.Tip(t.Context())
				r.must(err)
				r.remove("/f")
				r.log.Next(logfault.AfterCommit, func() {
					r.followWhile(func(c *versionlog.Commit) bool { return c.Seq <= changed.Seq })
					r.fs.tasks.Go(func() {
						time.Sleep(50 * time.Millisecond) // the follower is late
						r.follow()
					})
				})
			})
			if err := try(r); err != nil {
				t.Error(err)
			}
			r.wantLookup("/f", fuse.ENOENT)
			r.fs.tasks.Wait()
			r.wantAsLog()
		})
	}
}

// TestRenameDirWhileLoading renames a directory while heads load: before its reply is
// here, they tell what another session has put where something was.
func TestRenameDirWhileLoading(t *testing.T) {
	for path, text := range map[string]string{"/d/a": "anew....", "/d/s": "file"} {
		t.Run(path[1:], func(t *testing.T) {
			r := newRig(t, "/d/a", "/d/b", "/d/s/a")
			r.readOnce("/d/a")
			r.readOnce("/d/s/a")
			r.log.Next(logfault.AfterCommit, func() { r.write(path, text); r.must(r.s.walk(t.Context())) })
			if status := r.rename("/d", "/e", 0); !status.Ok() {
				t.Fatal(status)
			}
			r.wantAsLog()
			r.wantText("/e/a", "/d/a")
			r.wantText("/e/s/a", "/d/s/a")
		})
	}
}
