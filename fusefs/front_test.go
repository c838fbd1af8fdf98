package fusefs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/virtual"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// newFrontRig is newRig with a conflict of this session, and one of another.
func newFrontRig(t *testing.T) *rig {
	r := newRig(t, "/a")
	r.must(r.s.tree.Walk(t.Context()))
	r.keep()
	for _, session := range []string{"mine", "other"} {
		_, err := r.s.kept.Keep(conflict.About{Path: "/a", Session: session}, conflict.Texts{Base: []byte("base"), Theirs: []byte("theirs"), Yours: []byte("yours")})
		r.must(err)
	}
	return r
}

// listPlus lists a directory as the kernel does first, which comes to know what is in it.
func (r *rig) listPlus(id uint64) {
	r.Helper()
	f := r.front()
	var open fuse.OpenOut
	r.must(errOf(f.OpenDir(nil, &fuse.OpenIn{InHeader: header(id)}, &open)))
	for offset := uint64(0); ; {
		buf := make([]byte, 600) // a few at a time
		out := fuse.NewDirEntryList(buf, offset)
		r.must(errOf(f.ReadDirPlus(nil, &fuse.ReadIn{InHeader: header(id), Fh: open.Fh, Offset: offset}, out)))
		if out.Offset == offset {
			break
		}
		offset = out.Offset
	}
	f.ReleaseDir(&fuse.ReleaseIn{InHeader: header(id), Fh: open.Fh})
}

// listFrom returns what is listed of a directory behind an offset.
func (r *rig) listFrom(dir, offset uint64) (entries []fuse.DirEntry) {
	r.Helper()
	r.must(errOf(r.front().readDir(nil, &fuse.ReadIn{InHeader: header(dir), Offset: offset}, func(_ context.Context, _ *store, _ virtual.Dir, e fuse.DirEntry) bool {
		entries = append(entries, e)
		return true
	})))
	return entries
}

// TestVirtualNodesAreForgotten: nothing stays of the nodes below .mneme that the kernel has
// forgotten and no program has open.
func TestVirtualNodesAreForgotten(t *testing.T) {
	r := newFrontRig(t)
	known, nodes := r.virtuals(), len(r.fs.nodes)
	journal := r.hand()
	paths := []string{"/.mneme/README", "/.mneme/status", "/.mneme/errors", "/.mneme/conflicts/1/yours", "/.mneme/conflicts/2/about", "/.mneme/conflicts/1/yours"}
	for _, path := range paths {
		r.wantLookup(path, fuse.OK)
	}
	for _, path := range []string{"/.mneme", "/.mneme/conflicts", "/.mneme/conflicts/1"} {
		r.listPlus(r.wantLookup(path, fuse.OK).NodeId)
	}
	id := r.wantLookup("/.mneme/errors", fuse.OK).NodeId
	fh, status := r.open(id, syscall.O_RDONLY)
	r.must(errOf(status))
	r.wantNoted(journal)
	if now := len(r.fs.nodes); now != nodes {
		t.Errorf("the tree had %d nodes, and has %d", nodes, now)
	}
	if n := len(known.inodes); n != 17 || len(known.places) != n {
		t.Errorf("the kernel knows %d nodes at %d places, want 17", n, len(known.places))
	}
	f := r.front()
	for id, v := range known.inodes {
		f.Forget(id, v.lookups-1)
		if known.inodes[id] == nil {
			t.Errorf("%s has gone before it was forgotten", v.at.path)
		}
		f.Forget(id, 1)
	}
	if open := slices.Collect(maps.Keys(known.places)); len(open) != 1 || open[0].path != "/.mneme/errors" {
		t.Errorf("open is one file, left are %v", open)
	}
	r.wantCounted()
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(id), Fh: fh})
	r.wantNoted(journal)
	r.wantCounted()
	if left := len(known.inodes) + len(known.places) + len(known.handles); left > 0 {
		t.Errorf("left is %+v", *known)
	}
	for _, id := range []uint64{id, virtual.Number(r.s.id(), "/.mneme/nothing")} {
		if status := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(id)}, &fuse.AttrOut{}); status != fuse.Status(syscall.ESTALE) {
			t.Errorf("attributes of what is not known: %v", status)
		}
	}
}

// TestVirtualNumbers: a place has the same number wherever it is told, and no other place
// has it.
func TestVirtualNumbers(t *testing.T) {
	r := newFrontRig(t)
	known := r.virtuals()
	taken := virtual.Number(r.s.id(), "/.mneme/status")
	known.inodes[taken] = &virtualInode{id: taken, lookups: 1} // of another place
	status := r.wantLookup("/.mneme/status", fuse.OK)
	if status.NodeId != (taken+1)|1<<63 || status.Ino != status.NodeId || r.wantLookup("/.mneme/status", fuse.OK).NodeId != status.NodeId {
		t.Errorf("the number is %#x, want the one after %#x", status.NodeId, taken)
	}
	dir := r.wantLookup("/.mneme", fuse.OK).NodeId
	var listed []string
	for _, e := range r.listFrom(dir, 0) {
		listed = append(listed, fmt.Sprintf("%s %d %#x", e.Name, e.Off, e.Ino))
	}
	var want []string
	for i, name := range []string{".", "..", "README", "at", "conflicts", "errors", "events", "note", "pack", "status", "versions"} {
		id := r.s.tree.Root().ID()
		if name != ".." {
			id = r.wantLookup("/.mneme/"+strings.Trim(name, "."), fuse.OK).NodeId
		}
		want = append(want, fmt.Sprintf("%s %d %#x", name, i+1, id))
	}
	if !slices.Equal(listed, want) {
		t.Errorf("listed are\n%q, want\n%q", listed, want)
	}
}

// TestVirtualListGoesOn: a program that lists conflicts while some come and go gets each of
// the others once.
func TestVirtualListGoesOn(t *testing.T) {
	r := newFrontRig(t)
	dir := r.wantLookup("/.mneme/conflicts", fuse.OK).NodeId
	var names []string
	offset := uint64(0)
	next := func(most int) {
		entries := r.listFrom(dir, offset)
		for _, e := range entries[:min(most, len(entries))] {
			names, offset = append(names, e.Name), e.Off
		}
	}
	next(3)
	r.must(r.s.kept.Remove(1))
	_, err := r.s.kept.Keep(conflict.About{Path: "/a"}, conflict.Texts{})
	r.must(err)
	next(1)
	r.must(r.s.kept.Remove(2))
	next(10)
	if want := []string{".", "..", "1", "2", "3"}; !slices.Equal(names, want) {
		t.Errorf("listed are %q, want %q", names, want)
	}
}

// TestVirtualIsReadOnly makes every request below .mneme that would change something.
func TestVirtualIsReadOnly(t *testing.T) {
	r := newFrontRig(t)
	f := r.front()
	file := header(r.wantLookup("/a", fuse.OK).NodeId)
	root := header(r.s.tree.Root().ID())
	for _, path := range []string{"/.mneme", "/.mneme/conflicts", "/.mneme/conflicts/1", "/.mneme/status", "/.mneme/conflicts/1/yours"} {
		in := header(r.wantLookup(path, fuse.OK).NodeId)
		attr := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: in, Valid: fuse.FATTR_MODE, Mode: 0o777}}
		create := &fuse.CreateIn{InHeader: in, Flags: syscall.O_WRONLY | syscall.O_CREAT, Mode: 0o644}
		for what, status := range map[string]fuse.Status{
			"create":       f.Create(nil, create, "x", &fuse.CreateOut{}),
			"mkdir":        f.Mkdir(nil, &fuse.MkdirIn{InHeader: in, Mode: 0o755}, "x", &fuse.EntryOut{}),
			"mknod":        f.Mknod(nil, &fuse.MknodIn{InHeader: in, Mode: syscall.S_IFREG | 0o644}, "x", &fuse.EntryOut{}),
			"pipe":         f.Mknod(nil, &fuse.MknodIn{InHeader: in, Mode: syscall.S_IFIFO | 0o644}, "x", &fuse.EntryOut{}),
			"symlink":      f.Symlink(nil, &in, "/", "x", &fuse.EntryOut{}),
			"link":         f.Link(nil, &fuse.LinkIn{InHeader: in, Oldnodeid: file.NodeId}, "x", &fuse.EntryOut{}),
			"chmod":        f.SetAttr(nil, attr, &fuse.AttrOut{}),
			"rename":       f.Rename(nil, &fuse.RenameIn{InHeader: in, Newdir: in.NodeId}, "about", "x"),
			"rename in":    f.Rename(nil, &fuse.RenameIn{InHeader: root, Newdir: in.NodeId}, "a", "x"),
			"rename out":   f.Rename(nil, &fuse.RenameIn{InHeader: in, Newdir: root.NodeId}, "about", "x"),
			"setxattr":     f.SetXAttr(nil, &fuse.SetXAttrIn{InHeader: in}, "user.mneme.seq", nil),
			"removexattr":  f.RemoveXAttr(nil, &in, "user.x"),
			"fallocate":    f.Fallocate(nil, &fuse.FallocateIn{InHeader: in}),
			"unlink .":     or(f.Unlink(nil, &in, "nothing"), fuse.ENOENT, fuse.ENOTDIR),
			"rmdir":        or(f.Rmdir(nil, &in, "nothing"), fuse.ENOENT, fuse.ENOTDIR),
			"open":         or(openFor(f, in, syscall.O_RDWR), fuse.Status(syscall.EISDIR)),
			"truncate":     or(openFor(f, in, syscall.O_RDONLY|syscall.O_TRUNC), fuse.Status(syscall.EISDIR)),
			"write status": or(r.fs.refuseByNode(in.NodeId)),
		} {
			if status != fuse.EROFS {
				t.Errorf("%s in %s: %v", what, path, status)
			}
		}
		if size, status := f.ListXAttr(nil, &in, nil); size != 0 || !status.Ok() {
			t.Errorf("%s has attributes of %d bytes: %v", path, size, status)
		}
		if _, status := f.GetXAttr(nil, &in, "user.mneme.seq", nil); status != fuse.ENOATTR {
			t.Errorf("an attribute of %s: %v", path, status)
		}
	}
	r.wantText("/a", "/a")

	conflicts := header(r.wantLookup("/.mneme/conflicts", fuse.OK).NodeId)
	r.archive()
	r.s.refresh(t.Context())
	if status := f.Rmdir(nil, &conflicts, "1"); status != fuse.EROFS {
		t.Errorf("a conflict of a store that is archived is dismissed: %v", status)
	}
}

// or is EROFS for a status that is one of others.
func or(status fuse.Status, others ...fuse.Status) fuse.Status {
	if slices.Contains(others, status) {
		return fuse.EROFS
	}
	return status
}

func openFor(f *front, in fuse.InHeader, flags uint32) fuse.Status {
	return f.Open(nil, &fuse.OpenIn{InHeader: in, Flags: flags}, &fuse.OpenOut{})
}

// TestPinTakenOver: packs whose names are just a number show the same commit in the process that
// takes over, also of a size that no request has asked for before, and none that no request has
// pinned.
func TestPinTakenOver(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		r := newFrontRig(t)
		journal := r.hand()
		want := "sequence 2 "
		if pinned {
			want = "sequence 1 "
			r.wantLookup("/.mneme/pack/600", fuse.OK)
			r.noteAnswer()
		}
		_, err := r.other.Write(t.Context(), "/b", []byte("later"), versionlog.ExpectAny())
		r.must(err)
		next, _ := r.takeOver(journal)
		id := next.wantLookup("/.mneme/pack/700", fuse.OK).NodeId
		fh, status := next.open(id, syscall.O_RDONLY)
		r.must(errOf(status))
		if text := next.read(id, fh); !strings.Contains(text, want) {
			t.Errorf("pinned %v: %s; want %s", pinned, text, want)
		}
		next.close(fh)
	}
}

// TestFrontTakenOver: another process knows what is below .mneme by the numbers that the
// kernel has, also those that were given by counting; what is open can be read, and what
// is not there any more is looked up again.
func TestFrontTakenOver(t *testing.T) {
	t.Run("below its name", func(t *testing.T) { testFrontTakenOver(t, newFrontRig(t)) })
	t.Run("flat", func(t *testing.T) {
		r := newFrontRig(t)
		r.flatten()
		testFrontTakenOver(t, r)
	})
}

func testFrontTakenOver(t *testing.T, r *rig) {
	r.s.errors.Add("/a", "notes:/a: wrong")
	counted, known := uint64(77), r.virtuals()
	known.inherited[counted] = true
	n, err := virtual.Find(t.Context(), r.front().roots[r.s.id()].dir, "/.mneme/conflicts", true)
	r.must(err)
	known.enterLocked(r.s.id(), n, counted).lookups = 1
	journal := r.hand()
	ids := map[string]uint64{}
	for _, path := range []string{"/.mneme", "/.mneme/errors", "/.mneme/conflicts", "/.mneme/conflicts/1", "/.mneme/conflicts/1/base", "/.mneme/conflicts/2", "/.mneme/pack", "/.mneme/pack/600", "/.mneme/pack/700"} {
		ids[path] = r.wantLookup(path, fuse.OK).NodeId
	}
	if ids["/.mneme/conflicts"] != counted {
		t.Errorf("the kernel knows the directory by %d, it is told %d", counted, ids["/.mneme/conflicts"])
	}
	fh, status := r.open(ids["/.mneme/errors"], syscall.O_RDONLY)
	r.must(errOf(status))
	pack, status := r.open(ids["/.mneme/pack/600"], syscall.O_RDONLY)
	r.must(errOf(status))
	var dir fuse.OpenOut
	r.must(errOf(r.front().OpenDir(nil, &fuse.OpenIn{InHeader: header(counted)}, &dir)))
	r.must(r.s.kept.Remove(2))
	r.rewriteNotes()

	next, _ := r.takeOver(journal)
	f := next.front()
	for path, id := range ids {
		f.Forget(id, 1) // of how many references is not known
		var out fuse.AttrOut
		switch status := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(id)}, &out); {
		case path == "/.mneme/conflicts/2":
			if status != fuse.Status(syscall.ESTALE) {
				t.Errorf("what is not there any more: %v", status)
			}
			next.wantLookup(path, fuse.ENOENT)
		case path == "/.mneme/pack/700": // it is made when a request asks for it
			if status != fuse.Status(syscall.ESTALE) {
				t.Errorf("a pack that nobody has open: %v", status)
			}
			next.wantLookup(path, fuse.OK)
		case !status.Ok() || out.Ino != id || next.wantLookup(path, fuse.OK).NodeId != id:
			t.Errorf("%s is known by %d: %v, %d", path, id, status, out.Ino)
		}
	}
	if text := next.read(ids["/.mneme/errors"], fh); !strings.Contains(text, "wrong") {
		t.Errorf("the open file holds %q", text)
	}
	if text := next.read(ids["/.mneme/pack/600"], pack); !strings.HasPrefix(text, "memory pack 1 ") {
		t.Errorf("the open pack holds %q", text)
	}
	var names []string
	for _, e := range next.listFrom(counted, 2) {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"1"}) {
		t.Errorf("the open directory goes on with %q", names)
	}
	next.wantCounted()
	for id, fh := range map[uint64]uint64{ids["/.mneme/errors"]: fh, ids["/.mneme/pack/600"]: pack, counted: dir.Fh} {
		f.Release(nil, &fuse.ReleaseIn{InHeader: header(id), Fh: fh})
	}
	if next.wantCounted(); len(next.virtuals().handles) > 0 {
		t.Errorf("left are %v", next.virtuals().handles)
	}
}

// TestForgottenAndKnownAgain: the number of a place is that of another node when the kernel
// has forgotten it and looks the name up again, which may be noted together.
func TestForgottenAndKnownAgain(t *testing.T) {
	r := newFrontRig(t)
	journal := r.hand()
	for range 30 { // in any order
		id := r.wantLookup("/.mneme/status", fuse.OK).NodeId
		r.wantNoted(journal)
		r.front().Forget(id, 1)
		r.wantLookup("/.mneme/status", fuse.OK)
		if r.wantNoted(journal); t.Failed() {
			break
		}
		r.front().Forget(id, 1)
	}
}

// TestFrontTellsAnew: what the kernel keeps without a timeout may be of another program, or
// of before the store was archived, and is read again.
func TestFrontTellsAnew(t *testing.T) {
	r := newFrontRig(t)
	journal := r.hand()
	var want []uint64
	for _, path := range []string{"/.mneme", "/.mneme/README", "/.mneme/pack", "/.mneme/pack/600"} {
		want = append(want, r.wantLookup(path, fuse.OK).NodeId)
	}
	next := newFileSystem(t.Context(), []*memory.Store{r.s.memory}, *r.options())
	kernel := next.withKernel(t)
	unlock := r.locked()
	in := r.inherits(journal)
	unlock()
	newFront(next).adopt(in)
	next.awaitNotices(t)
	if got := slices.Sorted(slices.Values(kernel.pages)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the kernel is told to read %v again, want %v", got, want)
	}
}

// TestGuideTurns: the kernel keeps the texts of .mneme/README and .mneme/note, and is told
// when they are others.
func TestGuideTurns(t *testing.T) {
	for _, known := range []bool{true, false} {
		r := newRig(t)
		kernel := r.withKernel()
		if known {
			r.wantLookup("/.mneme/README", fuse.OK)
			r.wantLookup("/.mneme/note", fuse.OK)
		}
		r.archive()
		for range 2 {
			r.s.refresh(t.Context())
		}
		r.awaitNotices()
		var want []uint64
		if known {
			want = []uint64{virtual.Number(r.s.id(), "/.mneme/README"), virtual.Number(r.s.id(), "/.mneme/note")}
		}
		if !slices.Equal(kernel.pages, want) {
			t.Errorf("the kernel is told to read %v again, want %v", kernel.pages, want)
		}
		for _, path := range []string{"/.mneme/README", "/.mneme/note"} {
			id := r.wantLookup(path, fuse.OK).NodeId
			fh, status := r.open(id, syscall.O_RDONLY)
			r.must(errOf(status))
			if text := r.read(id, fh); !strings.Contains(text, "read-only") {
				t.Errorf("%s is now %q", path, text)
			}
		}
	}
}
