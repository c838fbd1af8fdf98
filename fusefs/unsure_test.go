package fusefs

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
)

// outages calls a test, in a mount of some files, for all that can have become of a
// commit of a path that ended with an error, met by the follower or not.
func outages(t *testing.T, files []string, path string, test func(r *rig, fh uint64)) {
	for name, of := range map[string]logfault.Fate{"unheard": logfault.Unheard, "unmade": logfault.Unmade} {
		for _, followed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, followed), func(t *testing.T) {
				r := newRig(t, files...)
				r.keep()
				r.must(r.s.walk(t.Context()))
				fh := r.dirty(path, "mine1")
				r.log.SetFate(func() logfault.Fate { return of })
				if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); status != fuse.EIO {
					t.Fatal(status)
				}
				r.log.SetFate(nil)
				if followed {
					r.follow()
				}
				test(r, fh)
			})
		}
	}
}

// wantSaved syncs and closes a file, whose text is to be at a path then, and nothing at
// another one.
func (r *rig) wantSaved(fh uint64, path, text, former string) {
	r.Helper()
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); !status.Ok() {
		r.Errorf("fsync: %v", status)
	}
	if status := r.close(fh); !status.Ok() {
		r.Errorf("close: %v", status)
	}
	r.wantText(path, text)
	r.wantLookup(former, fuse.ENOENT)
	r.wantAsLog()
}

// TestRenameAfterOutage renames a file, new or not, whose fsync has ended with an error.
func TestRenameAfterOutage(t *testing.T) {
	for _, from := range []string{"/f", "/n"} {
		outages(t, []string{"/f"}, from, func(r *rig, fh uint64) {
			if status := r.rename(from, "/g", 0); !status.Ok() {
				r.Fatal(status)
			}
			r.wantSaved(fh, "/g", "mine1", from)
		})
	}
}

// TestRenameDirAfterOutage renames the directory of a file whose fsync has ended with
// an error.
func TestRenameDirAfterOutage(t *testing.T) {
	outages(t, []string{"/d/f", "/d/h"}, "/d/f", func(r *rig, fh uint64) {
		if status := r.rename("/d", "/e", 0); !status.Ok() {
			r.Fatal(status)
		}
		r.wantSaved(fh, "/e/f", "mine1", "/d/f")
	})
}

// TestRenameOverAfterOutage renames over a new file whose fsync has ended with an error.
func TestRenameOverAfterOutage(t *testing.T) {
	outages(t, nil, "/n", func(r *rig, fh uint64) {
		r.close(r.dirty("/x.tmp", "mine2"))
		if status := r.rename("/x.tmp", "/n", 0); !status.Ok() {
			r.Fatal(status)
		}
		r.close(fh)
		r.follow()
		r.wantText("/n", "mine2")
		r.wantAsLog()
	})
}

// TestRenameBesideOutage renames a file while its fsync is under way, and ends with an
// error.
func TestRenameBesideOutage(t *testing.T) {
	for _, of := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
		r := newRig(t, "/f")
		r.must(r.s.walk(t.Context()))
		fh := r.dirty("/f", "mine1")
		renamed := make(chan fuse.Status)
		r.log.SetFate(func() logfault.Fate {
			r.log.SetFate(nil)
			go func() { renamed <- r.rename("/f", "/g", 0) }()
			time.Sleep(20 * time.Millisecond) // in which it comes to wait for the fsync
			return of
		})
		if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); status != fuse.EIO {
			t.Fatal(status)
		}
		if status := <-renamed; !status.Ok() {
			t.Fatal(status)
		}
		r.wantSaved(fh, "/g", "mine1", "/f")
	}
}

// TestMovedAfterOutage has another session rename a file whose fsync has ended with an
// error.
func TestMovedAfterOutage(t *testing.T) {
	outages(t, []string{"/f"}, "/f", func(r *rig, fh uint64) {
		r.move("/f", "/g")
		r.follow()
		r.wantSaved(fh, "/g", "mine1", "/f")
	})
}

// TestRenameInOutage renames a file whose fsync has ended with an error, while that
// cannot be cleared up: the rename is refused, and the file is saved later.
func TestRenameInOutage(t *testing.T) {
	outages(t, nil, "/n", func(r *rig, fh uint64) {
		r.log.SetFate(func() logfault.Fate { r.log.SetFate(nil); return logfault.Unmade })
		if status := r.rename("/n", "/g", 0); status != fuse.EIO {
			r.Fatalf("rename: %v, want EIO", status)
		}
		r.wantSaved(fh, "/n", "mine1", "/g")
	})
}

// TestUnlinkAfterOutage removes a new file whose fsync has ended with an error: it does not
// come back.
func TestUnlinkAfterOutage(t *testing.T) {
	outages(t, nil, "/n", func(r *rig, fh uint64) {
		if status := r.unlink("/n"); !status.Ok() {
			r.Fatal(status)
		}
		r.close(fh)
		r.follow()
		r.wantLookup("/n", fuse.ENOENT)
		r.wantAsLog()
	})
}

// TestOvertakenOnce prepares a stage that is overtaken, and has been loaded since, to be
// appended to: it stays loaded.
func TestOvertakenOnce(t *testing.T) {
	r := newRig(t, "/f")
	r.must(r.s.walk(t.Context()))
	r.readOnce("/f")
	r.write("/f", "theirs")
	r.follow()
	r.fs.mu.Lock()
	defer r.fs.mu.Unlock()
	n := r.s.find("/f")
	st := &stage{base: n.seen.Head(), overtaken: true, loaded: true, conflict: noConflict, writers: 1}
	n.stage = st
	if n.start(st, true); !st.loaded {
		t.Error("it is to be loaded again, without end")
	}
}

// TestAppendAfterTruncate appends to a file that another program of the session fails to
// truncate, since another session has changed it.
func TestAppendAfterTruncate(t *testing.T) {
	const flags = syscall.O_WRONLY | syscall.O_APPEND
	for _, dirty := range []bool{false, true} {
		t.Run(fmt.Sprint(dirty), func(t *testing.T) {
			r := newRig(t, "/f")
			r.keep()
			r.must(r.s.walk(t.Context()))
			r.readOnce("/f")
			entry := r.wantLookup("/f", fuse.OK)
			fh, status := r.open(entry.NodeId, flags)
			if !status.Ok() {
				t.Fatal(status)
			}
			add := func(text string) {
				if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Flags: flags}, []byte(text)); !status.Ok() {
					t.Errorf("append: %v", status)
				}
			}
			want := "theirs+more"
			if dirty {
				add("+one")
				want = "theirs+one+more"
			}
			r.log.Next(logfault.BeforeCommit, func() { r.write("/f", "theirs") })
			if status := r.truncate(entry.NodeId, 0); status != fuse.Status(DefaultConflictErrno) {
				t.Fatalf("truncate: %v, want a conflict", status)
			}
			add("+more")
			if status := r.close(fh); !status.Ok() {
				t.Errorf("close: %v", status)
			}
			r.follow()
			r.wantText("/f", want)
		})
	}
}
