package fusefs

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
)

// heldBlobs are read when the test lets them be, or the reader gives up.
type heldBlobs struct {
	cas.Store
	reached, free chan struct{}
}

func (b *heldBlobs) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	select {
	case b.reached <- struct{}{}:
	default:
	}
	select {
	case <-b.free:
		return b.Store.Get(ctx, d)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// holdBlobs makes the mount wait for content. It returns what is closed once it does,
// and what lets it go on.
func (r *rig) holdBlobs() (reached <-chan struct{}, release func()) {
	r.Helper()
	held := &heldBlobs{r.blobs, make(chan struct{}, 1), make(chan struct{})}
	lib := memory.NewLibrary(r.log, func(string) (cas.Store, error) { return held, nil })
	mine, err := lib.Open(r.Context(), r.s.memory.Info().ID, memory.SessionAuthor("mine"))
	r.must(err)
	r.s.memory = mine
	return held.reached, func() { close(held.free) }
}

// waits is what a request waits for when it is interrupted.
type waits int

const (
	forTip    waits = iota // the end of the log
	forCommit              // of its own
	forHead                // of a path, while heads load
	forPage                // of a directory, likewise
	forBlob
	forClaim // of /f and /d, which another request has
	forPush  // of the pages of /f
)

// hold makes a request wait. It returns a channel that is closed once it does, nil if that cannot
// be known, and a function that lets it continue.
func (w waits) hold(r *rig) (reached <-chan struct{}, release func()) {
	switch w {
	case forBlob:
		return r.holdBlobs()
	case forClaim:
		f, d := r.claim("/f"), r.claim("/d")
		return nil, func() { f(); d() }
	case forPush:
		r.pushing("/f")
		return nil, func() {}
	}
	point := map[waits]logfault.Point{
		forTip: logfault.BeforeTip, forCommit: logfault.BeforeCommit, forHead: logfault.AfterHead, forPage: logfault.AfterPage,
	}[w]
	hold := r.log.Hold(point)
	return hold.Reached(), hold.Release
}

// interruption is a request that is interrupted while it waits for something.
type interruption struct {
	name    string
	waits   waits
	request func(r *rig) func(cancel <-chan struct{}) fuse.Status // it is prepared, and then made
	then    string                                                // what the log has afterwards
	kept    string                                                // a text that is kept
	open    int                                                   // handles that are open, before and afterwards
}

const untouched = "/d/g /empty/ /f /h"

// garbage is what a request's buffers hold when the next one has them.
var garbage = fuse.InHeader{NodeId: 1 << 60, Length: 1 << 30, Caller: fuse.Caller{Pid: 1}}

func (r *rig) id(path string) uint64 { return r.wantLookup(path, fuse.OK).NodeId }

func opening(flags uint32) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		in, out := &fuse.OpenIn{InHeader: header(r.id("/f")), Flags: flags}, &fuse.OpenOut{}
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in.InHeader, in.Flags = garbage, 1<<30 }()
			return r.fs.Open(cancel, in, out)
		}
	}
}

// openingPack opens a pack that has to be made once more.
func openingPack(r *rig) func(<-chan struct{}) fuse.Status {
	f, dir := r.front(), header(r.id("/.mneme/pack"))
	var pack fuse.EntryOut
	r.wantOK(f.Lookup(nil, &dir, "600", &pack))
	r.wantOK(f.Lookup(nil, &dir, "700", &fuse.EntryOut{}))
	in, out := &fuse.OpenIn{InHeader: header(pack.NodeId)}, &fuse.OpenOut{}
	return func(cancel <-chan struct{}) fuse.Status {
		defer func() { in.InHeader, in.Flags = garbage, 1<<30 }()
		return f.Open(cancel, in, out)
	}
}

func creating(name string) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		in, out := &fuse.CreateIn{InHeader: header(r.s.tree.Root().ID()), Flags: syscall.O_WRONLY | syscall.O_CREAT, Mode: 0o644}, &fuse.CreateOut{}
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in.InHeader, in.Flags, in.Mode = garbage, 1<<30, 0 }()
			return r.fs.Create(cancel, in, name, out)
		}
	}
}

func listing(plus bool) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		var open fuse.OpenOut
		unlock, fs := r.locked(), r.fs
		status := fs.openDirLocked(r.s.tree.Root(), &open) // without what OpenDir waits for
		unlock()
		r.wantOK(status)
		in, out := &fuse.ReadIn{InHeader: header(r.s.tree.Root().ID()), Fh: open.Fh}, fuse.NewDirEntryList(make([]byte, 4096), 0)
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in.InHeader, in.Fh = garbage, 0 }()
			if plus {
				return r.fs.ReadDirPlus(cancel, in, out)
			}
			return r.fs.ReadDir(cancel, in, out)
		}
	}
}

func truncating(fh bool) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		in, out := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(r.id("/f")), Valid: fuse.FATTR_SIZE}}, &fuse.AttrOut{}
		if fh {
			open, status := r.open(in.NodeId, syscall.O_WRONLY)
			r.wantOK(status)
			in.Valid, in.Fh = fuse.FATTR_SIZE|fuse.FATTR_FH, open
		}
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in.InHeader, in.Valid, in.Size, in.Fh = garbage, 0, 1<<40, 0 }()
			return r.fs.SetAttr(cancel, in, out)
		}
	}
}

func withHeader(path string, do func(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		dir, name := r.parent(path)
		in := header(dir)
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in = garbage }()
			return do(r, cancel, &in, name)
		}
	}
}

func unlinked(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return r.fs.Unlink(cancel, in, name)
}

func rmdired(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return r.fs.Rmdir(cancel, in, name)
}

func looked(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return r.fs.Lookup(cancel, in, name, &fuse.EntryOut{})
}

func mkdired(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	mkdir := &fuse.MkdirIn{InHeader: *in, Mode: 0o755}
	defer func() { mkdir.InHeader = garbage }()
	return r.fs.Mkdir(cancel, mkdir, name, &fuse.EntryOut{})
}

func mknoded(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	mknod := &fuse.MknodIn{InHeader: *in, Mode: syscall.S_IFREG | 0o644}
	defer func() { mknod.InHeader, mknod.Mode = garbage, 0 }()
	return r.fs.Mknod(cancel, mknod, name, &fuse.EntryOut{})
}

func renamed(to string) func(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return func(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
		rename := &fuse.RenameIn{InHeader: *in, Newdir: r.s.tree.Root().ID()}
		defer func() { rename.InHeader, rename.Newdir = garbage, 1<<60 }()
		return r.fs.Rename(cancel, rename, name, to)
	}
}

// savingBeside is the close or fsync of a file that was written, with what the other
// session does meanwhile.
func savingBeside(sync bool, theirs func(r *rig)) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		fh := r.dirty("/f", "mine")
		if theirs != nil {
			theirs(r)
		}
		return func(cancel <-chan struct{}) fuse.Status {
			if sync {
				in := &fuse.FsyncIn{Fh: fh}
				defer func() { in.Fh = 0 }()
				return r.fs.Fsync(cancel, in)
			}
			in := &fuse.FlushIn{Fh: fh}
			defer func() { in.Fh = 0 }()
			return r.fs.Flush(cancel, in)
		}
	}
}

func readingHandle(noOpen bool) func(r *rig) func(<-chan struct{}) fuse.Status {
	return func(r *rig) func(<-chan struct{}) fuse.Status {
		in := &fuse.ReadIn{InHeader: header(r.id("/f")), Size: 4096}
		if !noOpen {
			fh, status := r.open(in.NodeId, syscall.O_RDONLY)
			r.wantOK(status)
			in.Fh = fh
		}
		fs := r.fs
		fs.noOpen = noOpen
		buf := make([]byte, 4096)
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in.InHeader, in.Fh, in.Offset = garbage, 0, 1<<30; clear(buf) }()
			_, status := r.fs.Read(cancel, in, buf)
			return status
		}
	}
}

func writing(r *rig) func(<-chan struct{}) fuse.Status {
	id := r.id("/f")
	fh, status := r.open(id, syscall.O_WRONLY)
	r.wantOK(status)
	in, data := &fuse.WriteIn{InHeader: header(id), Fh: fh}, []byte("mine")
	return func(cancel <-chan struct{}) fuse.Status {
		defer func() { in.InHeader, in.Fh, in.Offset = garbage, 0, 1<<30; copy(data, "XXXX") }()
		_, status := r.fs.Write(cancel, in, data)
		return status
	}
}

// interruptions are all requests that may wait, by what they wait for.
var interruptions = []interruption{
	{"lookup", forHead, withHeader("/f", looked), untouched, "", 0},
	{"lookup of a directory", forPage, withHeader("/d", looked), untouched, "", 0},
	{"lookup of a pack", forTip, withHeader("/.mneme/pack/600", func(r *rig, cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
		return r.front().Lookup(cancel, in, name, &fuse.EntryOut{})
	}), untouched, "", 0},
	{"open of a pack", forTip, openingPack, untouched, "", 0},
	{"opendir", forPage, func(r *rig) func(<-chan struct{}) fuse.Status {
		in, out := &fuse.OpenIn{InHeader: header(r.s.tree.Root().ID())}, &fuse.OpenOut{}
		return func(cancel <-chan struct{}) fuse.Status {
			defer func() { in.InHeader = garbage }()
			return r.fs.OpenDir(cancel, in, out)
		}
	}, untouched, "", 0},
	{"readdir", forPage, listing(false), untouched, "", 1},
	{"readdirplus", forPage, listing(true), untouched, "", 1},
	{"open to write", forTip, opening(syscall.O_WRONLY), untouched, "", 0},
	{"open to truncate", forTip, opening(syscall.O_WRONLY | syscall.O_TRUNC), untouched, "", 0},
	{"open of what is pushed", forPush, opening(syscall.O_RDWR), untouched, "", 0},
	{"create", forTip, creating("new"), untouched, "", 0},
	{"read", forBlob, readingHandle(false), untouched, "", 1},
	{"read without a handle", forBlob, readingHandle(true), untouched, "", 0},
	{"write", forBlob, writing, untouched, "", 1},
	{"truncate through a handle", forBlob, truncating(true), untouched, "", 1},

	{"truncate, not begun", forTip, truncating(false), untouched, "", 0},
	{"truncate, not read", forBlob, truncating(false), untouched, "", 0},
	{"truncate", forCommit, truncating(false), "/d/g /empty/ /f= /h", "", 0},
	{"mkdir, not begun", forTip, withHeader("/new", mkdired), untouched, "", 0},
	{"mkdir", forCommit, withHeader("/new", mkdired), "/d/g /empty/ /f /h /new/", "", 0},
	{"rmdir, not begun", forTip, withHeader("/empty", rmdired), untouched, "", 0},
	{"rmdir", forCommit, withHeader("/empty", rmdired), "/d/g /f /h", "", 0},
	{"unlink, not begun", forTip, withHeader("/f", unlinked), untouched, "", 0},
	{"unlink, not claimed", forClaim, withHeader("/f", unlinked), untouched, "", 0},
	{"unlink", forCommit, withHeader("/f", unlinked), "/d/g /empty/ /h", "", 0},
	{"rename, not begun", forTip, withHeader("/f", renamed("new")), untouched, "", 0},
	{"rename, not claimed", forClaim, withHeader("/f", renamed("new")), untouched, "", 0},
	{"rename", forCommit, withHeader("/f", renamed("new")), "/d/g /empty/ /h /new", "", 0},
	{"rename of a directory, not claimed", forClaim, withHeader("/d", renamed("new")), untouched, "", 0},
	{"rename of a directory", forCommit, withHeader("/d", renamed("new")), "/empty/ /f /h /new/g", "", 0},
	{"mknod, not begun", forTip, withHeader("/new", mknoded), untouched, "", 0},
	{"mknod", forCommit, withHeader("/new", mknoded), "/d/g /empty/ /f /h /new=", "", 0},
	{"close", forCommit, savingBeside(false, nil), "/d/g /empty/ /f=mine /h", "", 1},
	{"close, not claimed", forClaim, savingBeside(false, nil), "/d/g /empty/ /f=mine /h", "", 1},
	{"close that is refused", forCommit, savingBeside(false, func(r *rig) { r.write("/f", "theirs") }), "/d/g /empty/ /f=theirs /h", "mine", 1},
	{"close that fails", forCommit, savingBeside(false, func(r *rig) { r.log.SetFates(logfault.Unmade) }), untouched, "mine", 1},
	{"fsync", forCommit, savingBeside(true, nil), "/d/g /empty/ /f=mine /h", "", 1},
}

// TestInterrupts interrupts each request that may wait. The request does not notice a signal that
// is not meant to stop the program; another ends it within 100 ms. Then either nothing was done,
// or it continues, and the tree shows the outcome.
func TestInterrupts(t *testing.T) {
	for _, i := range interruptions {
		t.Run(i.name, func(t *testing.T) {
			for _, told := range []bool{false, true} { // before the call begins, or is ended by the goroutine that hears of it
				synctest.Test(t, func(t *testing.T) { i.run(newRig(t, "/d/g", "/f", "/h"), told) })
			}
		})
	}
}

func (i *interruption) run(r *rig, told bool) {
	r.keep()
	r.othersDir("/empty")
	if i.waits != forHead && i.waits != forPage {
		r.must(r.s.tree.Walk(r.Context()))
		r.follow()
	}
	k, fs := &fakeKernel{}, r.fs
	fs.keepNotices()
	fs.takeNotices(r.T, k)
	var counts atomic.Bool // the signal
	fs.signalled = func(uint32) bool { return counts.Load() }
	fs.calls.told = told
	request := i.request(r)
	reached, release := i.waits.hold(r)
	before := r.references()
	cancel, ended := make(chan struct{}), make(chan struct{})
	answered := make(chan fuse.Status, 2) // the first one counts
	go func() {
		defer close(ended)
		answered <- request(cancel)
	}()
	if reached != nil {
		<-reached
	}
	synctest.Wait()
	close(cancel)
	if told {
		fs.Interrupted(func(status fuse.Status) { answered <- status })
	}
	time.Sleep(time.Second)
	select {
	case status := <-answered:
		r.Fatalf("a signal that does not count ends it: %v", status)
	default:
	}
	counts.Store(true)
	began := time.Now()
	if status := <-answered; status != fuse.EINTR {
		r.Errorf("%v, want EINTR", status)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		r.Errorf("it took %v", took)
	}
	if r.errorsSay() != "" {
		r.Errorf("the errors say %s", r.errorsSay())
	}
	release()
	time.Sleep(2 * time.Second) // so that what goes on ends
	synctest.Wait()
	<-ended
	i.check(r, k, before)
}

// check looks at what an interrupted request has left.
func (i *interruption) check(r *rig, k *fakeKernel, before uint64) {
	r.Helper()
	if got := r.references(); got != before && i.then == untouched {
		r.Errorf("the kernel is thought to have %d references, want %d", got, before)
	}
	fs := r.fs
	fs.noOpen = false
	if open := len(fs.handles); open != i.open {
		r.Errorf("%d handles are open, want %d", open, i.open)
	}
	if i.waits == forHead || i.waits == forPage {
		r.must(r.s.tree.Walk(r.Context()))
	}
	r.wantNoDifference()
	if got := r.contents(); got != i.then {
		r.Errorf("the log has %s, want %s", got, i.then)
	}
	if i.kept != "" && !r.kept(i.kept) {
		r.Errorf("%q is not kept", i.kept)
	}
	name, names, _ := strings.Cut(i.name, " ")
	changed := names == "" && (name == "mkdir" || name == "mknod" || name == "rename")
	if changed && !k.forgot(r.s.tree.Root().ID(), "new") {
		r.Error("the kernel is not told to look the new name up again")
	}
	if names == "" && (name == "unlink" || name == "rename") && !k.forgot(r.s.tree.Root().ID(), "f") {
		r.Error("the kernel is not told to look the old name up again")
	}
}

// references counts those that the kernel is thought to have.
func (r *rig) references() (all uint64) {
	defer r.looking()()
	fs := r.fs
	for _, n := range fs.nodes {
		all += lookupsOf(n)
	}
	return all
}
