package fusefs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/testing/logfault"
	"mneme/session/conflict"
	"mneme/spool"
)

// newSpooled is a rig that keeps conflicts and has a spool beside them, and that
// has loaded.
func newSpooled(t *testing.T, files ...string) *rig {
	t.Helper()
	kept := conflict.New(filepath.Join(t.TempDir(), "conflicts")) // first, so that it is removed last
	r := newRig(t, files...)
	r.s.kept = kept
	r.s.spool = spool.New(r.s.kept.Dir(), minSpoolBytes)
	r.must(r.s.walk(t.Context()))
	return r
}

// sync opens a file and syncs it as a program does that writes it.
func (r *rig) sync(path string) fuse.Status {
	r.Helper()
	entry := r.wantLookup(path, fuse.OK)
	fh, status := r.open(entry.NodeId, syscall.O_WRONLY)
	if status.Ok() {
		status = r.fs.Fsync(nil, &fuse.FsyncIn{InHeader: header(entry.NodeId), Fh: fh})
	}
	r.close(fh)
	return status
}

// die leaves the spool as the death of the daemon does, and gives the mount a new
// one, in which nothing has come of it yet.
func (r *rig) die() {
	r.Helper()
	left := r.s.spool.End()
	if left != nil {
		r.must(left.Close())
	}
	r.s.spool = spool.New(r.s.kept.Dir(), minSpoolBytes)
	r.s.recovered = nil
}

// recovers settles what was left, and compares what came of it: "path" is a memory,
// "path=" is kept.
func (r *rig) recovers(want ...string) {
	r.Helper()
	r.s.recover(r.Context())
	r.wantLeft(r.s.recovered, want)
}

func (r *rig) wantLeft(left []Left, want []string) {
	r.Helper()
	var got []string
	for _, l := range left {
		text := l.Path
		if l.Conflict > 0 {
			text += "="
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.Errorf("came back: %q, want %q", got, want)
	}
}

// TestSpooledComesBack kills the daemon after programs have closed or synced files
// with scratch names: each is a memory of the next mount, or a conflict.
func TestSpooledComesBack(t *testing.T) {
	r := newSpooled(t, "/a", "/taken.tmp.d")
	for _, path := range []string{"/closed.tmp", "/synced.tmp", "/tmpabcdefgh", "/.x.AbC123", "/x~", "/.y.swp", "/#z#", "/taken.tmp", "/same.tmp"} {
		if status := r.save(path, "text of "+path, syscall.O_EXCL); !status.Ok() {
			t.Fatalf("save %s: %v", path, status)
		}
	}
	if status := r.sync("/synced.tmp"); !status.Ok() {
		t.Fatal(status)
	}
	if status := r.save("/bad.tmp", "\xff", syscall.O_EXCL); !status.Ok() {
		t.Fatal(status)
	}
	if status := r.save("/a~", "/a", syscall.O_EXCL); !status.Ok() { // a copy of what is there
		t.Fatal(status)
	}
	r.write("/taken.tmp", "theirs")
	r.write("/same.tmp", "text of /same.tmp")
	r.die()
	r.recovers("/#z#=", "/.x.AbC123", "/.y.swp=", "/bad.tmp=", "/closed.tmp", "/synced.tmp", "/taken.tmp=", "/tmpabcdefgh", "/x~=")
	if text := string(r.s.errors.Lines()); !strings.Contains(text, `"notes:/closed.tmp" was saved by session "mine"`) || !strings.Contains(text, `"notes:/x~" of session "mine" is not in the history`) {
		t.Errorf("errors:\n%s", text)
	}
	r.follow() // here with the tree of the dead mount, which gives way
	r.wantText("/taken.tmp", "theirs")
	for _, path := range []string{"/x~", "/.y.swp", "/#z#", "/taken.tmp"} {
		if !r.kept("text of " + path) {
			t.Errorf("%s is not kept", path)
		}
	}
	for _, path := range []string{"/closed.tmp", "/synced.tmp", "/tmpabcdefgh", "/.x.AbC123"} {
		if !r.inHistory("text of " + path) {
			t.Errorf("%s is not in the history", path)
		}
	}
	r.die()
	r.recovers()
}

// TestSettledDoesNotComeBack kills the daemon after files with scratch names were
// renamed, removed, replaced or committed: none of them comes back.
func TestSettledDoesNotComeBack(t *testing.T) {
	r := newSpooled(t, "/a")
	r.readOnce("/a")
	for _, tmp := range []string{"/1.tmp", "/2.tmp", "/3.tmp", "/4.tmp", "/5.tmp", "/6~"} {
		if status := r.save(tmp, "text of "+tmp, syscall.O_EXCL); !status.Ok() {
			t.Fatal(status)
		}
		if status := r.sync(tmp); !status.Ok() {
			t.Fatal(status)
		}
	}
	for _, status := range []fuse.Status{
		r.rename("/1.tmp", "/a", 0), r.rename("/2.tmp", "/new", 0), r.unlink("/3.tmp"), r.rename("/4.tmp", "/5.tmp", 0), r.unlink("/6~"),
	} {
		if !status.Ok() {
			t.Fatal(status)
		}
	}
	n := r.node(r.wantLookup("/5.tmp", fuse.OK).NodeId)
	r.fs.commitUnheard(n, n.stage(), lingered)
	r.die()
	r.recovers()
	r.follow()
	r.wantText("/5.tmp", "text of /4.tmp")
}

// TestKilledBeforeItIsSettled kills the daemon when a save has been committed, and
// the spool does not say so yet: there is no second version, whichever commit it was.
func TestKilledBeforeItIsSettled(t *testing.T) {
	for name, commit := range map[string]func(*rig) fuse.Status{
		"renamed over a memory": func(r *rig) fuse.Status { return r.rename("/x.tmp", "/a", 0) },
		"renamed":               func(r *rig) fuse.Status { return r.rename("/x.tmp", "/b", 0) },
		"lingered": func(r *rig) fuse.Status {
			n := r.node(r.wantLookup("/x.tmp", fuse.OK).NodeId)
			return r.fs.commitFile(n, n.stage(), lingered)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSpooled(t, "/a")
			r.readOnce("/a")
			if status := r.save("/x.tmp", "text", syscall.O_EXCL); !status.Ok() {
				t.Fatal(status)
			}
			r.log.Next(logfault.AfterCommit, func() { // committed, and not heard of
				r.die()
				r.recovers()
			})
			if status := commit(r); !status.Ok() {
				t.Fatal(status)
			}
			tip, err := r.other.Tip(t.Context())
			r.must(err)
			if tip.Seq != 2 {
				t.Errorf("%d commits, want 2", tip.Seq)
			}
			if r.kept("text") {
				t.Error("it is kept as a conflict, too")
			}
		})
	}
}

// TestKilledWhileRecovering kills the mount that brings a file back: the next one
// makes no second version of it, and keeps no second conflict.
func TestKilledWhileRecovering(t *testing.T) {
	r := newSpooled(t)
	for _, path := range []string{"/x.tmp", "/x~"} {
		if status := r.save(path, "text of "+path, syscall.O_EXCL); !status.Ok() {
			t.Fatal(status)
		}
	}
	r.die()
	killed := errors.New("killed")
	dead, err := spool.Dead(r.s.kept.Dir())
	r.must(err)
	r.s.settle(dead[0], func(e *spool.Entry) (*Left, error) {
		_, err := r.s.revive(t.Context(), e)
		r.must(err)
		return nil, killed
	})
	r.remove("/x.tmp") // and somebody has removed it since
	r.recovers("/x~=")
	ids, err := r.s.kept.IDs()
	r.must(err)
	tip, err := r.other.Tip(t.Context())
	r.must(err)
	if len(ids) != 1 || tip.Seq != 2 {
		t.Errorf("conflicts %v, %d commits; want one, and two", ids, tip.Seq)
	}
}

// TestOutageWhileRecovering holds that what cannot be brought back now waits for the
// next mount.
func TestOutageWhileRecovering(t *testing.T) {
	r := newSpooled(t)
	if status := r.save("/x.tmp", "text", syscall.O_EXCL); !status.Ok() {
		t.Fatal(status)
	}
	r.die()
	r.log.SetFate(func() logfault.Fate { return logfault.Unmade })
	r.recovers()
	r.log.SetFate(nil)
	r.recovers("/x.tmp")
}

// TestSpoolOfTheLiving holds that a mount leaves the spool of one that lives alone.
func TestSpoolOfTheLiving(t *testing.T) {
	r := newSpooled(t)
	if status := r.save("/x.tmp", "text", syscall.O_EXCL); !status.Ok() {
		t.Fatal(status)
	}
	r.recovers()
	r.wantText("/x.tmp", "text")
}

// TestFsyncThatCannotBeSpooled holds that fsync and close of a scratch file fail
// when its bytes cannot be kept, and succeed again when they can.
func TestFsyncThatCannotBeSpooled(t *testing.T) {
	r := newSpooled(t)
	if status := r.save("/x.tmp", "one", syscall.O_EXCL); !status.Ok() {
		t.Fatal(status)
	}
	entry := r.wantLookup("/x.tmp", fuse.OK)
	fh, status := r.open(entry.NodeId, syscall.O_WRONLY)
	if !status.Ok() {
		t.Fatal(status)
	}
	if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("two")); !status.Ok() {
		t.Fatal(status)
	}
	whole := r.s.spool
	r.s.spool = spool.New(r.s.kept.Dir(), 10)
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{InHeader: header(entry.NodeId), Fh: fh}); status != fuse.Status(syscall.ENOSPC) {
		t.Errorf("fsync: %v, want ENOSPC", status)
	}
	r.s.spool = whole
	if status := r.fs.Fsync(nil, &fuse.FsyncIn{InHeader: header(entry.NodeId), Fh: fh}); !status.Ok() {
		t.Errorf("fsync: %v", status)
	}
	r.die()
	r.recovers("/x.tmp")
	if !r.inHistory("two") {
		t.Error("what was synced is not in the history")
	}
}

// TestScratchIsKeptWhenTheMountEnds ends a mount in order: what has content, and is
// not in the history, is kept once.
func TestScratchIsKeptWhenTheMountEnds(t *testing.T) {
	r := newSpooled(t, "/a", "/b")
	r.readOnce("/a")
	r.hide("/b", "/b~") // comes back
	for _, path := range []string{"/a~", "/#a#", "/x.tmp", "/notes~", "/5036"} {
		if status := r.save(path, map[string]string{"/a~": "/a", "/#a#": "draft", "/x.tmp": "x", "/notes~": "n", "/5036": "number"}[path], syscall.O_EXCL); !status.Ok() {
			t.Fatalf("%s: %v", path, status)
		}
	}
	if status := r.save("/4913", "", syscall.O_EXCL); !status.Ok() { // vim asks whether it may
		t.Fatal(status)
	}
	if status := r.save("/.e.swp", "", syscall.O_EXCL); !status.Ok() {
		t.Fatal(status)
	}
	dir, name := r.parent("/.open.swp") // and one that is not closed yet
	var created fuse.CreateOut
	if status := r.fs.Create(nil, &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_EXCL, Mode: 0o600}, name, &created); !status.Ok() {
		t.Fatal(status)
	}
	if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: created.Fh}, []byte("unsaved")); !status.Ok() {
		t.Fatal(status)
	}
	r.commitAll()
	r.fs.endSpools()
	r.wantLeft(r.s.left, []string{"/#a#=", "/.open.swp=", "/notes~="})
	for _, text := range []string{"x", "number"} {
		if !r.inHistory(text) {
			t.Errorf("%q is not in the history", text)
		}
	}
	ids, err := r.s.kept.IDs()
	r.must(err)
	if len(ids) != 3 {
		t.Errorf("conflicts %v, want three", ids)
	}
	if names, err := os.ReadDir(r.s.kept.Dir()); err != nil || slices.ContainsFunc(names, func(d os.DirEntry) bool { return strings.HasPrefix(d.Name(), "spool-") }) {
		t.Errorf("the spool is left: %v, %v", names, err)
	}
	if _, status := r.lookup("/4913"); !status.Ok() || r.inHistory("4913") {
		t.Error("vim's probe is in the history")
	}
}

// TestOriginals holds where a copy's bytes are looked for.
func TestOriginals(t *testing.T) {
	for path, want := range map[string][]string{
		"/d/x~": {"/d/x~", "/d/x"}, "/x.~3~": {"/x.~3~", "/x"}, "/#x#": {"/#x#", "/x"}, "/~": {"/~"}, "/##": {"/##"}, "/.x.swp": {"/.x.swp"},
	} {
		if got := originals(path); !slices.Equal(got, want) {
			t.Errorf("originals(%q) = %q, want %q", path, got, want)
		}
	}
}
