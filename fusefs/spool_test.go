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
	r.keepIn(kept)
	r.s.spool = spool.New(r.s.kept.Dir(), minSpoolBytes)
	r.must(r.s.tree.Walk(t.Context()))
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
	if got := r.recover(); !slices.Equal(got, want) {
		r.Errorf("came back: %q, want %q", got, want)
	}
}

// recover settles what was left, and says what came of it.
func (r *rig) recover() []string {
	r.s.recover(r.Context())
	return endsOf(r.s.recovered)
}

// endsOf says what came of texts: "path" is a memory, "path=" is kept.
func endsOf(left []Left) (got []string) {
	for _, l := range left {
		text := l.Path
		if l.Conflict > 0 {
			text += "="
		}
		got = append(got, text)
	}
	slices.Sort(got)
	return got
}

// openSpool gives the mount a spool of its own, with room for so many bytes, and returns the
// one that it had.
func (r *rig) openSpool(bytes int64) (had *spool.Spool) {
	had = r.s.spool
	r.useSpool(spool.New(r.s.kept.Dir(), bytes))
	return had
}

func (r *rig) useSpool(s *spool.Spool) { r.s.spool = s }

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
	r.must(r.linger("/5.tmp"))
	r.die()
	r.recovers()
	r.follow()
	r.wantText("/5.tmp", "text of /4.tmp")
}

// TestKilledBeforeItIsSettled kills the daemon when a temporary file that no program has renamed
// has been committed, and the spool does not say so yet: there is no second version.
func TestKilledBeforeItIsSettled(t *testing.T) {
	r := newSpooled(t, "/a")
	r.readOnce("/a")
	if status := r.save("/x.tmp", "text", syscall.O_EXCL); !status.Ok() {
		t.Fatal(status)
	}
	r.log.Next(logfault.AfterCommit, func() { // committed, and not heard of
		r.die()
		r.recovers()
	})
	r.must(r.linger("/x.tmp"))
	tip, err := r.other.Tip(t.Context())
	r.must(err)
	if tip.Seq != 2 {
		t.Errorf("%d commits, want 2", tip.Seq)
	}
	if r.kept("text") {
		t.Error("it is kept as a conflict, too")
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
	r.remove("/x.tmp") // and another session has removed it since
	r.recovers("/x~=")
	ids, err := r.s.kept.IDs()
	r.must(err)
	tip, err := r.other.Tip(t.Context())
	r.must(err)
	if len(ids) != 1 || tip.Seq != 2 {
		t.Errorf("conflicts %v, %d commits; want one, and two", ids, tip.Seq)
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
	if got, want := endsOf(r.s.left), []string{"/#a#=", "/.open.swp=", "/notes~="}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
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
