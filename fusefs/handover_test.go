package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/handover"
	"mneme/session"
)

// hand has the rig's mount noted.
func (r *rig) hand() *handover.Journal {
	r.Helper()
	fs := r.fs
	journal, err := handover.New()
	r.must(err)
	r.Cleanup(func() { _ = journal.File().Close() })
	defer r.locked()()
	fs.handing = newHanding(r.fs, journal, []byte("greeting"), nil)
	r.must(fs.handing.rewriteLocked())
	return journal
}

// rewriteNotes has all there is noted, in the place of all notes.
func (r *rig) rewriteNotes() {
	r.Helper()
	defer r.locked()()
	r.must(r.handing().rewriteLocked())
}

// inherits returns what another process would find, were this one killed before the
// next answer. Caller holds fs.mu.
func (r *rig) inherits(journal *handover.Journal) *inherited {
	r.Helper()
	fs := r.fs
	fs.handing.noteAllLocked(journal.Long)
	notes, err := journal.Notes()
	r.must(err)
	in, err := readNotes(notes)
	r.must(err)
	return in
}

// wantNoted compares what another process would find with what there is.
func (r *rig) wantNoted(journal *handover.Journal) {
	r.Helper()
	fs := r.fs
	defer r.locked()()
	in := r.inherits(journal)
	for id, n := range fs.nodes {
		note := in.nodes[id]
		switch {
		case note == nil && (lookupsOf(n) > 0 && n != fs.root || opensOf(n) > 0):
			r.Errorf("%s, node %d, is not noted", n.NameLocked(), id)
		case note == nil:
		case n.ParentLocked() != nil && fs.nodes[n.ParentLocked().ID()] == n.ParentLocked() && (note.Parent != n.ParentLocked().ID() || note.Name != n.NameLocked()), n.ParentLocked() == nil && note.Parent != 0:
			r.Errorf("node %d is noted as %s in %d, it is %s", id, note.Name, note.Parent, n.NameLocked())
		case n.HeadLocked() != nil && (note.Head == nil || !n.HeadLocked().Is(note.Head)):
			r.Errorf("node %d, %s, is noted with %v, its head is %v", id, n.NameLocked(), note.Head, n.HeadLocked())
		case !note.MTime.Equal(n.MTimeLocked()) || note.Mode != n.ModeLocked() || note.Kept && !n.StaysLocked() && n.CountLocked() == 0:
			r.Errorf("node %d, %s, is noted as of %v, mode %o; it is of %v, mode %o", id, n.NameLocked(), note.MTime, note.Mode, n.MTimeLocked(), n.ModeLocked())
		}
	}
	for id := range in.nodes {
		if fs.nodes[id] == nil && fs.virtual.inodes[id] == nil {
			r.Errorf("node %d is noted, and gone", id)
		}
	}
	for id, v := range fs.virtual.inodes {
		if note := in.nodes[id]; note == nil || in.path(note) != v.at.path || note.Mode != v.node.Mode() {
			r.Errorf("node %d, %s, is noted as %+v", id, v.at.path, note)
		}
	}
	open := slices.AppendSeq(slices.Collect(maps.Keys(fs.handles)), maps.Keys(fs.virtual.handles))
	if got, want := slices.Sorted(maps.Keys(in.handles)), slices.Sorted(slices.Values(open)); !slices.Equal(got, want) {
		r.Errorf("handles %v are noted, there are %v", got, want)
	}
	for fh, h := range fs.handles {
		note := in.handles[fh]
		if note == nil || h.stage == nil {
			continue
		}
		st := in.stages[note.Stage]
		kept := h.stage.conflict != 0 && h.stage.conflictAt == h.stage.changes
		unsaved := h.stage.dirty && h.stage.err == 0 && !kept && !h.node.LatestLocked().IsRemovedLocked()
		if st == nil || unsaved != (st.State == stageDirty) || st.State == stageDirty && !bytes.Equal(st.text, h.stage.data) {
			r.Errorf("handle %d of %s: noted is %+v, written %q", fh, h.node.NameLocked(), st, h.stage.data)
		}
	}
	for path, known := range r.s.known.All() {
		if diff := cmp.Diff(known.State(nil), in.known[knownPath{0, path}]); diff != "" {
			r.Errorf("of %s the session is noted to know something else than it does:\n%s", path, diff)
		}
	}
	if in.state.NextID != nextNumber(fs) || in.state.NextFH != fs.nextFH {
		r.Errorf("the next numbers are noted as %+v, they are %d and %d", in.state, nextNumber(fs), fs.nextFH)
	}
}

// TestHandover notes a mount while programs and another session work at it.
func TestHandover(t *testing.T) {
	r := newRig(t, "/f", "/d/g", "/d/e/h")
	r.must(r.s.tree.Walk(t.Context()))
	journal := r.hand()
	check := func(what string) {
		t.Helper()
		t.Run(what, func(t *testing.T) {
			here := *r
			here.T = t
			here.wantNoted(journal)
		})
	}
	check("nothing")
	r.wantText("/f", "/f")
	r.wantLookup("/d/e/h", fuse.OK)
	check("looked at")
	fh := r.dirty("/f", "some")
	check("written")
	for i := range 5 {
		_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Offset: uint64(10 * i)}, []byte(fmt.Sprint("part ", i)))
		if !status.Ok() {
			t.Fatal(status)
		}
		check(fmt.Sprint("written in parts ", i))
	}
	if status := r.fs.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(r.wantLookup("/f", fuse.OK).NodeId), Valid: fuse.FATTR_SIZE | fuse.FATTR_FH, Size: 7, Fh: fh}}, &fuse.AttrOut{}); !status.Ok() {
		t.Fatal(status)
	}
	check("cut")
	if status := r.close(fh); !status.Ok() {
		t.Fatal(status)
	}
	check("closed")
	if status := r.rename("/d/e", "/moved", 0); !status.Ok() {
		t.Fatal(status)
	}
	check("a directory renamed")
	r.wantText("/moved/h", "/d/e/h")
	r.write("/moved/h", "theirs")
	r.write("/d/g", "theirs")
	r.follow()
	check("changed by another")
	late := r.dirtyWith("/f", "mine", syscall.O_WRONLY)
	r.write("/f", "theirs")
	r.follow()
	check("overtaken")
	_ = r.close(late)
	check("lost")
	r.wantText("/f", "theirs")
	check("read again")
	r.remove("/d/g")
	r.follow()
	check("removed by another")
	if status := r.unlink("/f"); !status.Ok() {
		t.Fatal(status)
	}
	check("removed")
	fs := r.fs
	fs.forgetErased()
	check("rewritten")
	file, err := io.ReadAll(io.NewSectionReader(journal.File(), 0, 1<<20))
	if n := bytes.Count(file, []byte("part ")); n > 0 || err != nil {
		t.Errorf("the journal has %d times what may have been erased, %v", n, err)
	}
}

// TestAppliedIsWhatTheKernelKnows holds that a commit counts as told once the notices
// of it have been taken in.
func TestAppliedIsWhatTheKernelKnows(t *testing.T) {
	r := newRig(t, "/f")
	r.keepNotices()
	r.must(r.s.tree.Walk(t.Context()))
	journal := r.hand()
	r.wantText("/f", "/f")
	if status := r.fs.Lookup(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, r.s.slug(), &fuse.EntryOut{}); !status.Ok() {
		t.Fatal(status)
	}
	told := func() uint64 {
		defer r.locked()()
		return r.inherits(journal).state.Applied[0]
	}
	before := told()
	r.write("/f", "theirs")
	r.follow()
	if now := told(); now != before || r.s.tree.AppliedLocked() == before {
		t.Errorf("noted as told is commit %d, though no notice was sent since %d", now, before)
	}
	r.give(&fakeKernel{})
	r.awaitNotices()
	if now := told(); now != r.s.tree.AppliedLocked() {
		t.Errorf("noted as told is commit %d, want %d", now, r.s.tree.AppliedLocked())
	}
}

// Whatever time a program gives a file, it is noted as it is shown.
func TestTimesAreNoted(t *testing.T) {
	r := newRig(t, "/f")
	journal := r.hand()
	for _, at := range []uint64{0, 1, 1 << 31, 1 << 40, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1<<40, 1<<64 - 1} {
		in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(r.wantLookup("/f", fuse.OK).NodeId),
			Valid: fuse.FATTR_MTIME | fuse.FATTR_ATIME, Mtime: at, Mtimensec: 999_999_999, Atime: at}}
		var out fuse.AttrOut
		if status := r.fs.SetAttr(nil, in, &out); !status.Ok() {
			t.Errorf("time %d: %v", int64(at), status)
		}
		r.wantNoted(journal)
		if at < 1<<31 && out.Mtime != at {
			t.Errorf("time %d is shown as %d", at, out.Mtime)
		}
	}
}

// FuzzReadNotes reads whatever stands in a journal.
func FuzzReadNotes(f *testing.F) {
	f.Add([]byte("igreeting"), []byte(`s{"Applied":[3],"NextID":9}`), []byte(`n{"ID":4,"Parent":5}`))
	f.Add([]byte(`n{"ID":5,"Parent":4}`), []byte("w\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00text"), []byte("g\x05"))
	f.Add([]byte(`e{"Stage":1,"Node":4,"State":1}`), []byte("t\x01\x00\x00\x00\x00\x00\x00\x00text"), []byte(`h{"FH":1}`))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		in, err := readNotes([][]byte{[]byte("ig"), []byte(`s{"NextID":9}`), a, b, c})
		if err != nil {
			return
		}
		if n := len(in.order()); n != len(in.nodes) {
			t.Errorf("%d of %d nodes in order", n, len(in.nodes))
		}
		for _, n := range in.nodes {
			_ = in.path(n)
		}
	})
}

// TestNotesOfLostWrites: writes lose while answers to others are noted.
func TestNotesOfLostWrites(t *testing.T) {
	r := newRig(t)
	journal := r.hand()
	s, lost := r.s, make(chan struct{})
	go func() {
		defer close(lost)
		for i := range 100 {
			err := s.session.Lose(t.Context(), &renameText{move: &move{s: s}, path: fmt.Sprint("/", i)})
			if _, isLost := errors.AsType[*session.LostError](err); !isLost {
				t.Errorf("%d is not lost: %v", i, err)
			}
		}
	}()
	for isLost := false; !isLost; {
		select {
		case <-lost:
			isLost = true
		default:
		}
		r.wantNoted(journal)
	}
}
