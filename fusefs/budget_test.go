package fusefs

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// recount is what a mount holds, counted again. Caller holds fs.mu.
func (fs *fileSystem) recount() int64 {
	held := int64(0)
	stages := map[*stage]bool{}
	count := func(st *stage) {
		if st != nil && !stages[st] {
			stages[st] = true
			held += stageCost + int64(cap(st.data)+cap(st.appended)) + st.attempt.bytes()
		}
	}
	for _, n := range fs.nodes {
		count(stageOf(n))
		if (n.StaysLocked() || n.IsMadeHereLocked()) && storeOf(n) != nil {
			held += directoryCost
		}
		held += int64(len(keptContent(n)))
	}
	for _, h := range fs.handles {
		count(h.stage)
		held += handleCost + int64(len(h.text))
		for _, e := range h.entries {
			held += entryCost + int64(len(e.name))
		}
	}
	for _, h := range fs.virtual.handles {
		held += handleCost + int64(len(h.text))
	}
	return held
}

// recountOpen is how much of that is open. Caller holds fs.mu.
func (fs *fileSystem) recountOpen() (open int64) {
	for _, h := range fs.handles {
		if h.stage == nil {
			open += h.held
		}
	}
	for _, h := range fs.virtual.handles {
		open += h.costs()
	}
	return open
}

// wantCounted checks that the budget has what the mount holds, and that the stores
// have counted the files that the tree has.
func (r *rig) wantCounted() {
	r.Helper()
	fs := r.fs
	defer r.looking()()
	if held := fs.recount(); fs.budget.held != held {
		r.Errorf("the budget has %d bytes, the mount holds %d", fs.budget.held, held)
	}
	if open := fs.recountOpen(); fs.budget.open != open {
		r.Errorf("the budget has %d bytes that are open, there are %d", fs.budget.open, open)
	}
	for _, s := range fs.stores {
		if files := filesBelow(s.tree.Root()); s.tree.CountsLocked() != files {
			r.Errorf("the store counts %+v, the tree has %+v", s.tree.CountsLocked(), files)
		}
	}
}

// make makes a file and leaves it open.
func (r *rig) make(path string) (fh uint64, status fuse.Status) {
	dir, name := r.parent(path)
	var out fuse.CreateOut
	status = r.fs.Create(nil, &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_RDWR | syscall.O_CREAT, Mode: 0o644}, name, &out)
	return out.Fh, status
}

// makeWith makes a file with text at an offset, and leaves it open.
func (r *rig) makeWith(path string, offset uint64, text string) fuse.Status {
	fh, status := r.make(path)
	if status.Ok() {
		_, status = r.fs.Write(nil, &fuse.WriteIn{Fh: fh, Offset: offset}, []byte(text))
	}
	return status
}

// TestBudgetFollows: what is dropped counts no more, however that comes about.
func TestBudgetFollows(t *testing.T) {
	r := newRig(t, "/a")
	fs := r.fs
	r.must(r.s.tree.Walk(t.Context()))
	none := fs.budget.held
	wantNone := func(after string) {
		t.Helper()
		if r.wantCounted(); fs.budget.held != none {
			t.Errorf("%d bytes are held after %s, want %d", fs.budget.held, after, none)
		}
	}
	forget := func(id uint64) { r.fs.Forget(id, 1000) }

	r.must(errOf(r.save("/x~", "text", 0)))
	id := r.wantLookup("/x~", fuse.OK).NodeId
	r.must(errOf(r.unlink("/x~")))
	forget(id)
	unlock := r.locked()
	r.s.tree.Root().SetStaysLocked(false)
	unlock()
	wantNone("a scratch file was removed")

	r.must(errOf(r.mkdir("/d")))
	id = r.wantLookup("/d", fuse.OK).NodeId
	r.rmdir("/d")
	forget(id)
	unlock = r.locked()
	r.s.tree.Root().SetStaysLocked(false)
	unlock()
	wantNone("a directory was removed")

	fh := r.mustOpen("/a", syscall.O_RDONLY)
	id = r.wantLookup("/a", fuse.OK).NodeId
	r.read(id, fh)
	if r.wantCounted(); keptContent(r.node(id)) == nil {
		t.Error("an open file does not keep what was read")
	}
	r.write("/a", strings.Repeat("longer than before", 200))
	r.follow()
	r.wantCounted()
	r.release(fh)
	wantNone("an open file was closed")

	r.must(errOf(r.save("/t.tmp", "text", 0)))
	n := r.s.tree.FindLocked("/t.tmp")
	st := stageOf(n)
	st.writers++ // as linger
	fs.commitUnheard(n, st, lingered)
	unlock = r.locked()
	fs.endLingerLocked(n, st)
	unlock()
	wantNone("a temporary file became a memory")

	fs.budget.limit = 4 << 10
	fh = r.mustOpen("/a", syscall.O_RDONLY)
	if got := r.read(id, fh); got != strings.Repeat("longer than before", 200) || keptContent(r.node(id)) != nil {
		t.Errorf("read %q with little room, and it is kept: %v", got, keptContent(r.node(id)) != nil)
	}
	r.release(fh)
	wantNone("an open file was closed")
}

func errOf(status fuse.Status) error {
	if status.Ok() {
		return nil
	}
	return syscall.Errno(status)
}

func (r *rig) release(fh uint64) { r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh}) }

// TestBudget: what a mount holds is bounded, whichever way a program makes it hold
// more. The call that would pass the limit gets EDQUOT, and .mneme/errors says why in
// one line. A file can still be saved, and what is closed or removed counts no more.
func TestBudget(t *testing.T) {
	const limit = 1 << 20
	for name, flood := range map[string]struct {
		grow  func(r *rig, path string) fuse.Status
		least int // calls that go well
	}{
		"sparse scratch files": {func(r *rig, path string) fuse.Status { return r.makeWith(path+"~", 64<<10, "x") }, 4},
		"scratch files made longer": {func(r *rig, path string) fuse.Status {
			if fh, status := r.make(path + "~"); !status.Ok() {
				return status
			} else {
				return r.truncate(r.handle(fh).node.ID(), 64<<10)
			}
		}, 4},
		"scratch files that were closed": {func(r *rig, path string) fuse.Status {
			return r.save(path+"~", strings.Repeat("x", 16<<10), 0)
		}, 16},
		"files being written": {func(r *rig, path string) fuse.Status { return r.makeWith(path, 0, strings.Repeat("x", 32<<10)) }, 10},
		"files being emptied": {func(r *rig, path string) fuse.Status {
			_, status := r.open(r.s.tree.FindLocked("/a").ID(), syscall.O_WRONLY|syscall.O_TRUNC)
			return status
		}, 500},
		"open files": {func(r *rig, path string) fuse.Status {
			_, status := r.open(r.s.tree.FindLocked("/a").ID(), syscall.O_RDONLY)
			return status
		}, 400},
		"files of .mneme": {func(r *rig, path string) fuse.Status {
			_, status := r.open(r.wantLookup("/.mneme/status", fuse.OK).NodeId, syscall.O_RDONLY)
			return status
		}, 200},
		"open directories": {func(r *rig, path string) fuse.Status {
			var open fuse.OpenOut
			if status := r.fs.OpenDir(nil, &fuse.OpenIn{InHeader: header(r.s.tree.Root().ID())}, &open); !status.Ok() {
				return status
			}
			return r.fs.readDir(nil, &fuse.ReadIn{InHeader: header(r.s.tree.Root().ID()), Fh: open.Fh}, func(dirEntry) bool { return true })
		}, 200},
		"directories": {func(r *rig, path string) fuse.Status { return r.mkdir(path) }, 200},
		"directories of memories": {func(r *rig, path string) fuse.Status {
			if status := r.mkdir(path); !status.Ok() {
				return status
			}
			return r.save(path+"/f", "text", 0)
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/a")
			r.must(r.s.tree.Walk(t.Context()))
			r.budget().limit = limit
			well, most := 0, int64(0)
			status := fuse.OK
			for ; status.Ok() && well < 10_000; well++ {
				status = flood.grow(r, "/"+strconv.Itoa(well))
				most = max(most, r.budget().held)
			}
			if status != fuse.Status(syscall.EDQUOT) || well <= flood.least {
				t.Fatalf("call %d ended with %v; want EDQUOT, after %d calls or more", well, status, flood.least)
			}
			if most > limit+limit/8 {
				t.Errorf("%d bytes were held, want at most %d", most, limit)
			}
			for range 3 {
				flood.grow(r, "/again")
			}
			if text := r.errorsSay(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "--max-memory") {
				t.Errorf("want one line of errors that names the limit, got:\n%s", text)
			}
			if name != "files being written" && name != "files being emptied" {
				if status := r.save("/saved", "well", 0); !status.Ok() {
					t.Errorf("save while that is held: %v", status)
				}
			}
			if name != "open files" && name != "open directories" && name != "files of .mneme" { // which have to be closed
				if _, status := r.names("/"); !status.Ok() {
					t.Errorf("what is to be removed cannot be listed: %v", status)
				}
			}
			r.wantCounted()
			for fh, h := range r.handles() {
				h.node.SetRemovedLocked(true) // so that nothing is committed
				r.release(fh)
			}
			r.wantCounted()
			if handles := len(r.handles()); handles > 0 {
				t.Fatalf("%d handles are left", handles)
			}
		})
	}
}
