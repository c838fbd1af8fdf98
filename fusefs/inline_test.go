package fusefs

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// inlines tries what may be answered at once, of a file by its path and of one
// of its handles, and returns what is.
func (r *rig) inlines(path string, fh uint64) (answered []string) {
	r.Helper()
	front := r.front()
	dir, name := r.parent(path)
	entry, status := r.lookup(path)
	if !status.Ok() {
		r.Fatalf("lookup of %s: %v", path, status)
	}
	in := header(dir)
	note := func(kind string, yes bool) {
		if yes {
			answered = append(answered, kind)
		}
	}
	_, yes := front.InlineLookup(&in, name, &fuse.EntryOut{})
	note("lookup", yes)
	_, yes = front.InlineGetAttr(&fuse.GetAttrIn{InHeader: header(entry.NodeId)}, &fuse.AttrOut{})
	note("getattr", yes)
	var out fuse.OpenOut
	_, yes = front.InlineOpen(&fuse.OpenIn{InHeader: header(entry.NodeId)}, &out)
	note("open", yes)
	if yes {
		front.InlineRelease(&fuse.ReleaseIn{Fh: out.Fh})
	}
	_, yes = front.InlineOpenDir(&fuse.OpenIn{InHeader: header(dir)}, &out)
	note("opendir", yes)
	if yes {
		front.InlineReleaseDir(&fuse.ReleaseIn{Fh: out.Fh})
	}
	_, _, yes = front.InlineWrite(&fuse.WriteIn{Fh: fh, Offset: 1}, []byte("x"))
	note("write", yes)
	note("release", front.InlineRelease(&fuse.ReleaseIn{Fh: fh}))
	return answered
}

func (r *rig) wantInlines(path string, fh uint64, want ...string) {
	r.Helper()
	if got := r.inlines(path, fh); !slices.Equal(got, want) {
		r.Errorf("of %s, %q is answered at once, want %q", path, got, want)
	}
}

// The goroutine that reads the requests must not be made to wait: for the log, for the kernel, or
// for a commit.
func TestInlineNeverWaits(t *testing.T) {
	reading := []string{"lookup", "getattr", "open", "opendir"}
	open := func(r *rig, path string, flags uint32) uint64 {
		r.Helper()
		fh, status := r.open(r.wantLookup(path, fuse.OK).NodeId, flags)
		if !status.Ok() {
			r.Fatalf("open of %s: %v", path, status)
		}
		return fh
	}
	write := func(r *rig, fh uint64, text string) {
		r.Helper()
		if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte(text)); !status.Ok() {
			r.Fatalf("write: %v", status)
		}
	}
	loaded := func(t *testing.T) *rig {
		r := newRig(t, "/d/a", "/d/b")
		r.must(r.s.tree.Walk(t.Context()))
		return r
	}

	t.Run("read", func(t *testing.T) {
		r := loaded(t)
		r.wantInlines("/d/a", open(r, "/d/a", syscall.O_RDONLY), append(reading, "release")...)
	})
	t.Run("written", func(t *testing.T) {
		r := loaded(t)
		fh := open(r, "/d/a", syscall.O_WRONLY|syscall.O_TRUNC)
		r.wantInlines("/d/a", fh, append(reading, "write")...) // its end would commit
		if status := r.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); !status.Ok() {
			t.Errorf("flush: %v", status)
		}
		if !r.fs.InlineRelease(&fuse.ReleaseIn{Fh: fh}) {
			t.Error("the release of what is committed is not answered at once")
		}
		r.wantText("/d/a", "\x00x")
		r.wantAsLog()
	})
	t.Run("not fetched yet", func(t *testing.T) {
		r := loaded(t)
		fh := open(r, "/d/a", syscall.O_WRONLY)
		r.wantInlines("/d/a", fh, append(reading, "release")...) // a write needs what is there
	})
	t.Run("overtaken", func(t *testing.T) {
		r := loaded(t)
		fh := open(r, "/d/a", syscall.O_WRONLY)
		write(r, fh, "mine")
		r.write("/d/a", "theirs")
		r.follow()
		r.wantInlines("/d/a", fh, reading...) // a write keeps a conflict
	})
	t.Run("overtaken since it was synced", func(t *testing.T) {
		r := loaded(t)
		fh := open(r, "/d/a", syscall.O_WRONLY)
		write(r, fh, "mine")
		if status := r.fs.Fsync(nil, &fuse.FsyncIn{Fh: fh}); !status.Ok() {
			t.Errorf("fsync: %v", status)
		}
		r.write("/d/a", "theirs")
		r.follow()
		r.wantInlines("/d/a", fh, append(reading, "release")...)
	})
	t.Run("unknown to the kernel", func(t *testing.T) {
		r := loaded(t)
		fh := open(r, "/d/a", syscall.O_WRONLY)
		write(r, fh, "mine")
		unlock := r.locked()
		n := r.s.tree.FindLocked("/d/a")
		r.notices().contentLocked(n)
		unlock()
		r.wantInlines("/d/a", fh, "lookup", "getattr", "opendir", "write") // an open waits for the notice
	})
	t.Run("loading", func(t *testing.T) {
		r := newRig(t, "/d/a", "/d/b")
		r.walkTo(0, func() {
			fh := open(r, "/d/a", syscall.O_RDONLY)
			r.wantInlines("/d/a", fh, "getattr", "open", "release") // names are asked of the log
		})
	})
	t.Run("control", func(t *testing.T) {
		r := loaded(t)
		r.wantInlines("/.mneme/status", 0, "release") // texts take locks of their own
	})
}

// TestInlineNoOpen: a mount without opens refuses opens at once.
func TestInlineNoOpen(t *testing.T) {
	r := newRig(t, "/a")
	r.must(r.s.tree.Walk(t.Context()))
	id := r.wantLookup("/a", fuse.OK).NodeId
	r.fs.noOpen = true
	if status, answered := r.fs.InlineOpen(&fuse.OpenIn{InHeader: header(id)}, &fuse.OpenOut{}); status != fuse.ENOSYS || !answered {
		t.Errorf("open: %v, %v", status, answered)
	}
	if status, answered := r.fs.InlineOpenDir(&fuse.OpenIn{InHeader: header(r.s.tree.Root().ID())}, &fuse.OpenOut{}); status != fuse.ENOSYS || !answered {
		t.Errorf("opendir: %v, %v", status, answered)
	}
	if _, _, answered := r.fs.InlineWrite(&fuse.WriteIn{}, []byte("x")); answered {
		t.Error("a write is answered at once")
	}
}

// inlineResult says how a request was answered.
func inlineResult(status fuse.Status, answered bool) string {
	switch {
	case !answered:
		return "later"
	case !status.Ok():
		return status.String()
	}
	return "at once"
}

// TestInlineToWrite: a file is opened for writing, or made, at once where the tree is known to
// show the state of the log, and there is nothing to refuse.
func TestInlineToWrite(t *testing.T) {
	const now, later = "at once", "later"
	for name, test := range map[string]struct {
		before       func(r *rig)
		opens, makes string
	}{
		"current":       {func(*rig) {}, now, now},
		"not known":     {func(r *rig) { r.log.SetKnowsTip(false) }, later, later},
		"not followed":  {func(r *rig) { r.write("/other", "theirs") }, later, later},
		"followed":      {func(r *rig) { r.write("/other", "theirs"); r.follow() }, now, now},
		"archived":      {func(r *rig) { r.archive() }, later, later},
		"strict":        {func(r *rig) { r.configure(func(o *Options) { o.Strict = true }) }, later, now},
		"stale":         {func(r *rig) { r.wantText("/d/a", "/d/a"); r.write("/d/a", "theirs"); r.follow() }, later, now},
		"its new name":  {func(r *rig) { r.write("/d/new", "theirs"); r.follow() }, now, later},
		"given pages":   {func(r *rig) { r.pushing("/d/a") }, later, now},
		"read-only":     {func(r *rig) { r.s.archived.Store(true) }, fuse.EROFS.String(), later},
		"moved away":    {func(r *rig) { r.write("/d/new", "theirs"); r.follow(); r.hide("/d/new", "/d/new~") }, now, later},
		"dir not there": {func(r *rig) { r.remove("/d/a"); r.remove("/d/b"); r.follow() }, fuse.Status(syscall.ESTALE).String(), later},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "/d/a", "/d/b")
			r.log.SetKnowsTip(true)
			r.must(r.s.tree.Walk(t.Context()))
			file, dir := r.wantLookup("/d/a", fuse.OK), r.wantLookup("/d", fuse.OK)
			test.before(r)
			if entry, status := r.lookup("/d/a"); status.Ok() {
				file = entry
			}
			var created fuse.CreateOut
			makes := inlineResult(r.fs.InlineCreate(&fuse.CreateIn{InHeader: header(dir.NodeId), Flags: syscall.O_WRONLY | syscall.O_CREAT, Mode: 0o644}, "new", &created))
			var opened fuse.OpenOut
			opens := inlineResult(r.fs.InlineOpen(&fuse.OpenIn{InHeader: header(file.NodeId), Flags: syscall.O_WRONLY | syscall.O_TRUNC}, &opened))
			if makes != test.makes || opens != test.opens {
				t.Fatalf("made %s, want %s; opened %s, want %s", makes, test.makes, opens, test.opens)
			}
			for path, fh := range map[string]uint64{"/d/new": created.Fh, "/d/a": opened.Fh} {
				if fh == 0 {
					continue
				}
				if _, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte("mine")); !status.Ok() {
					t.Errorf("write to %s: %v", path, status)
				}
				if status := r.fs.Flush(nil, &fuse.FlushIn{Fh: fh}); !status.Ok() {
					t.Errorf("close of %s: %v", path, status)
				}
				r.wantText(path, "mine")
			}
			if (test.opens == now || test.makes == now) && name != "moved away" {
				r.follow()
				r.wantAsLog()
			}
		})
	}
}

// TestInlineCreateLeaves what it cannot tell at once, and what is refused, to others.
func TestInlineCreateLeaves(t *testing.T) {
	r := newRig(t, "/d/a", "/d/b")
	r.log.SetKnowsTip(true)
	dir := r.wantLookup("/d", fuse.OK).NodeId
	create := func(name string, mode uint32) string {
		return inlineResult(r.fs.InlineCreate(&fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_CREAT, Mode: mode}, name, &fuse.CreateOut{}))
	}
	if got := create("new", 0o644); got != "later" {
		t.Errorf("while heads load, made %s", got)
	}
	r.must(r.s.tree.Walk(t.Context()))
	for name, mode := range map[string]uint32{
		"set-user-id": syscall.S_ISUID | 0o755, "a\x01b": 0o644, strings.Repeat("x", 300): 0o644,
	} {
		if got := create(name, mode); got != "later" {
			t.Errorf("%q with mode %o is made %s", name, mode, got)
		}
	}
	if got := create("new", 0o644); got != "at once" {
		t.Errorf("then, made %s", got)
	}
}
