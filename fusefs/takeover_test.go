package fusefs

import (
	"context"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/handover"
	"mneme/memory"
	"mneme/versionlog"
)

// takeOver makes what another process would have of the mount, were this one killed
// now, and what it would keep as conflicts.
func (r *rig) takeOver(journal *handover.Journal) (next *rig, left []*takenText) {
	r.Helper()
	unlock := r.locked()
	in := r.inherits(journal)
	unlock()
	n := *r
	var ctx context.Context
	ctx, n.stop = context.WithCancel(r.Context())
	opts := Options{Logger: slog.New(slog.DiscardHandler), Session: "mine", Flat: r.options().Flat}
	n.fs = newFileSystemFrom(ctx, []*memory.Store{r.s.memory}, opts, in.state.NextID)
	fs := n.fs
	n.kernel = fs.withKernel(r.T)
	n.s = fs.stores[0]
	n.s.patience = time.Microsecond
	r.must(n.s.begin(ctx))
	n.s.load(ctx)
	r.Cleanup(func() {
		n.stop()
		fs.tasks.Wait()
	})
	n.keepIn(r.s.kept)
	n.front().adopt(in)
	missed, err := fs.missed(ctx, in)
	r.must(err)
	return &n, fs.adopt(in, missed)
}

// wantTakenOver compares a mount with what has taken it over when all was followed.
func (r *rig) wantTakenOver(next *rig, left []*takenText) {
	r.Helper()
	fs, after := r.fs, next.fs
	if wrong := next.differs(); wrong != "" {
		r.Errorf("the tree that has taken over: %s", wrong)
	}
	for id, n := range fs.nodes {
		m := after.nodes[id]
		path, there := "", false
		if storeOf(n) != nil {
			path, there = n.PathLocked()
		}
		switch {
		case lookupsOf(n) == 0 || storeOf(n) == nil:
		case m == nil && (n.IsDir() && there && path != "" && next.s.tree.FindLocked(path) != nil || !n.IsDir() && n.HeadLocked() != nil):
			r.Errorf("node %d, %s %q, is not there any more", id, n.NameLocked(), path)
		case m == nil || n.IsDir():
		case n.HeadLocked() != nil && !memory.SameText(n.HeadLocked(), m.HeadLocked()):
			r.Errorf("node %d, %s, is %v, and was %v", id, n.NameLocked(), m.HeadLocked(), n.HeadLocked())
		case there && !n.IsUnloggedLocked() && knownLocked(m).Stale(m.LatestLocked().HeadLocked()) != knownLocked(n).Stale(n.LatestLocked().HeadLocked()):
			r.Errorf("node %d, %s, is known: %+v, and was: %+v", id, path, knownLocked(m), knownLocked(n))
		}
	}
	for path, known := range r.s.known.All() {
		got := next.s.known.Of(path)
		if !memory.SameText(got.Head(), known.Head()) || got.IsKnown() != known.IsKnown() {
			r.Errorf("of %s the session knows %+v, and knew %+v", path, got, known)
		}
	}
	if diff := cmp.Diff(r.movedUnread(), next.movedUnread()); diff != "" {
		r.Errorf("what was moved away unread is known otherwise (-was +is):\n%s", diff)
	}
	for fh, h := range fs.handles {
		g := after.handles[fh]
		if g == nil {
			r.Errorf("handle %d of %s is gone", fh, h.node.NameLocked())
			continue
		}
		if h.stage == nil || g.stage == nil {
			continue
		}
		unsaved := h.stage.dirty && h.stage.err == 0 && len(h.stage.data) > 0 && !h.node.LatestLocked().IsRemovedLocked()
		if unsaved && g.stage.err == 0 {
			r.Errorf("handle %d of %s goes on, though what it wrote is not there", fh, h.node.NameLocked())
		}
		kept := func(l *takenText) bool { return string(l.text) == string(h.stage.data) }
		if unsaved && h.stage.conflict == 0 && !slices.ContainsFunc(left, kept) {
			r.Errorf("what handle %d of %s wrote is not kept: %q", fh, h.node.NameLocked(), h.stage.data)
		}
	}
	if after.nextFH < fs.nextFH || nextNumber(after) < nextNumber(fs) {
		r.Errorf("numbers are given away twice")
	}
}

// TestOwnCommitIsKnown kills a mount between a commit and the note of it.
func TestOwnCommitIsKnown(t *testing.T) {
	r := newRig(t, "/f", "/g")
	journal := r.hand()
	r.wantText("/f", "/f")
	r.wantText("/g", "/g")
	r.noteAnswer()
	write := func(path, text string, expect versionlog.Expectation) {
		t.Helper()
		_, err := r.s.memory.Write(t.Context(), path, []byte(text), expect)
		r.must(err)
	}
	write("/f", "mine", versionlog.ExpectAny())
	r.write("/g", "theirs")
	write("/g", "theirs and mine", versionlog.ExpectAny()) // as an append does, to a text that was not read
	next, _ := r.takeOver(journal)
	if status := next.save("/f", "mine again", syscall.O_TRUNC); !status.Ok() {
		t.Errorf("a write on top of the session's own: %v", status)
	}
	if status := next.save("/g", "over it", syscall.O_TRUNC); status != fuse.Status(DefaultConflictErrno) {
		t.Errorf("a write over what was never read: %v, want a conflict", status)
	}
}

// TestReadersKeepTheirVersion takes a mount over after another session has changed,
// moved and removed what is open.
func TestReadersKeepTheirVersion(t *testing.T) {
	r := newRig(t, "/changed", "/moved", "/removed", "/unlinked")
	journal := r.hand()
	open := map[string][2]uint64{}
	for _, path := range []string{"/changed", "/moved", "/removed", "/unlinked"} {
		entry := r.wantLookup(path, fuse.OK)
		fh, status := r.open(entry.NodeId, syscall.O_RDONLY)
		if !status.Ok() {
			t.Fatal(status)
		}
		open[path] = [2]uint64{entry.NodeId, fh}
	}
	if status := r.unlink("/unlinked"); !status.Ok() {
		t.Fatal(status)
	}
	r.noteAnswer()
	r.write("/changed", "new")
	r.move("/moved", "/elsewhere")
	r.remove("/removed")
	next, _ := r.takeOver(journal)
	for path, of := range open {
		if got := next.read(of[0], of[1]); got != path {
			t.Errorf("who has %s open reads %q", path, got)
		}
	}
	next.wantText("/changed", "new")
	next.wantText("/elsewhere", "/moved")
	next.wantLookup("/removed", fuse.ENOENT)
	next.wantLookup("/unlinked", fuse.ENOENT)
}

// TestHiddenComesBack takes a mount over in which memories are hidden, and a directory of one
// of them is removed: the kernel, which has been told that there is nothing, looks them up again.
func TestHiddenComesBack(t *testing.T) {
	r := newRig(t, "/a", "/d/b", "/c")
	root := r.known("/")
	journal := r.hand()
	r.hide("/a", "/a~")
	r.hide("/d/b", "/b~")
	r.rmdir("/d")
	for _, path := range []string{"/a", "/d"} {
		r.wantLookup(path, fuse.ENOENT)
	}
	r.wantText("/c", "/c")
	r.noteAnswer()
	next, _ := r.takeOver(journal)
	next.awaitNotices()
	for _, name := range []string{"a", "d"} {
		if !next.kernel.forgot(root, name) {
			t.Errorf("the kernel is not told that %s is there", name)
		}
	}
	if next.kernel.forgot(root, "c") {
		t.Error("the kernel is to look up what it knows")
	}
	next.wantText("/a", "/a")
	next.wantText("/d/b", "/d/b")
}

// TestMovedUnreadIsHandedOn takes a mount over whose session has moved away what it had not read:
// until it has, it makes nothing new in its place.
func TestMovedUnreadIsHandedOn(t *testing.T) {
	for _, rewritten := range []bool{false, true} {
		r := newRig(t, "/a")
		journal := r.hand()
		r.readOnce("/a")
		r.write("/a", "theirs")
		r.follow()
		if status := r.rename("/a", "/b", 0); !status.Ok() {
			t.Fatal(status)
		}
		r.noteAnswer()
		if rewritten {
			r.rewriteNotes()
		}
		next, _ := r.takeOver(journal)
		if status := next.save("/a", "mine", 0); status != fuse.Status(DefaultConflictErrno) {
			t.Errorf("what was moved away unread is made anew: %v, want a conflict", status)
		}
		next.readOnce("/b")
		if status := next.save("/a", "mine", 0); !status.Ok() {
			t.Errorf("what has been read is not made anew: %v", status)
		}
	}
}

// TestFailedIsHandedOn takes a mount over in which a write has failed: what the handle writes next
// would lack its beginning.
func TestFailedIsHandedOn(t *testing.T) {
	for _, rewritten := range []bool{false, true} {
		r := newRig(t, "/f")
		journal := r.hand()
		fh := r.mustOpen("/f", syscall.O_WRONLY|syscall.O_TRUNC)
		r.writeAt(fh, 1, syscall.O_WRONLY, 0, "the beginning")
		writeAt := func(r *rig, offset uint64) fuse.Status {
			_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Flags: syscall.O_WRONLY, Offset: offset}, []byte("the rest"))
			return status
		}
		if status := writeAt(r, 1<<40); status != fuse.Status(syscall.EFBIG) {
			t.Fatalf("a write too far: %v", status)
		}
		r.noteAnswer()
		if rewritten {
			r.rewriteNotes()
		}
		next, _ := r.takeOver(journal)
		if status := writeAt(next, 13); status != fuse.Status(syscall.EFBIG) {
			t.Errorf("a write after one that failed before the mount was taken over: %v", status)
		}
		if status := next.close(fh); status != fuse.Status(syscall.EFBIG) {
			t.Errorf("close: %v", status)
		}
		next.wantStored("/f", "/f")
	}
}
