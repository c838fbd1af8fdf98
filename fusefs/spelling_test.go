package fusefs

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

const nfc, nfd = "caf\u00e9", "cafe\u0301"

// beside mounts the store of a rig once more, for another session; nothing has loaded.
func (r *rig) beside() *rig {
	r.Helper()
	ms, err := r.library().Open(r.Context(), r.other.Info().ID, memory.SessionAuthor("beside"))
	r.must(err)
	return r.mounted(ms)
}

// library opens the stores of a rig once more.
func (r *rig) library() *memory.Library {
	return memory.NewLibrary(r.log, func(string) (cas.Store, error) { return r.blobs, nil })
}

// mounted mounts a store; nothing has loaded.
func (r *rig) mounted(ms *memory.Store) *rig {
	m := &rig{T: r.T, log: r.log, blobs: r.blobs, other: r.other}
	m.fs = newFileSystem(r.Context(), []*memory.Store{ms}, Options{Logger: slog.New(slog.DiscardHandler), Session: "beside"})
	m.fs.notify.Close()
	m.s = m.fs.stores[0]
	m.s.patience = time.Microsecond
	m.must(m.s.begin(m.Context()))
	m.Cleanup(m.fs.tasks.Wait)
	return m
}

// loaded is beside with everything loaded.
func (r *rig) loaded() *rig {
	r.Helper()
	m := r.beside()
	m.walk()
	return m
}

// walk has everything loaded.
func (r *rig) walk() {
	r.Helper()
	r.must(r.s.tree.Walk(r.Context()))
}

// put is the other session's, which spells the path.
func (r *rig) put(path, spelling, text string) {
	r.Helper()
	c := memory.Change{Action: versionlog.Put, Path: path, Spelling: spelling, Content: []byte(text), Expect: versionlog.ExpectAny()}
	_, err := r.other.Batch(r.Context(), []memory.Change{c}, nil)
	r.must(err)
}

// wantListed compares a directory in several mounts, each of which has followed the log.
func wantListed(dir string, names []string, mounts ...*rig) {
	for _, m := range mounts {
		m.Helper()
		m.follow()
		m.wantNames(dir, names...)
	}
}

// TestSpelledInAllMounts makes names in one mount: another one, one that is mounted later,
// and one that has loaded nothing yet list them as they were made.
func TestSpelledInAllMounts(t *testing.T) {
	r := newRig(t)
	r.must(r.s.tree.Walk(t.Context()))
	other := r.loaded()
	check := func(dir string, names ...string) {
		t.Helper()
		wantListed(dir, names, r, other, r.loaded(), r.beside())
	}
	r.wantOK(r.save("/"+nfd, "1", 0))
	r.wantOK(r.save("/u\u0308", "1", 0))
	r.wantOK(r.save("/"+"\u00f6", "1", 0))
	r.wantOK(r.mkdir("/d" + nfd))
	r.wantOK(r.save("/d"+nfd+"/"+nfd, "1", 0))
	r.wantOK(r.mkdir("/d" + nfd + "/e\u0301"))
	check("/", nfd, "d"+nfd, "u\u0308", "\u00f6")
	check("/d"+nfc, nfd, "e\u0301")

	r.wantOK(r.save("/"+nfc, "2", 0)) // the same file, whatever it is called here
	other.follow()
	other.readOnce("/" + nfc)
	r.write("/"+nfc, "3")
	check("/", nfd, "d"+nfd, "u\u0308", "\u00f6")

	r.wantOK(r.rename("/u\u0308", "/"+"o\u0302", 0))
	r.wantOK(r.rename("/d"+nfc, "/e"+nfc, 0))
	check("/", nfd, "e"+nfc, "o\u0302", "\u00f6")
	check("/e"+nfc, nfd, "e\u0301")
	r.wantOK(r.rename("/e"+nfc, "/f"+nfd, 0))
	check("/f"+nfc, nfd, "e\u0301")
	check("/", nfd, "f"+nfd, "o\u0302", "\u00f6")
	long := strings.Repeat("e\u0301", 100) // of which no listing can tell
	r.wantOK(r.save("/f"+nfd+"/"+long, "1", 0))
	check("/f"+nfc, nfd, "e\u0301", strings.Repeat("\u00e9", 100))
	r.wantOK(r.unlink("/f" + nfc + "/" + long))
	r.wantOK(r.rename("/f"+nfc+"/"+nfc, "/f"+nfc+"/"+nfc+"2", 0))
	check("/f"+nfc, nfc+"2", "e\u0301")
	check("/", nfd, "f"+nfd, "o\u0302", "\u00f6")
}

// TestSpelledAnew gives names that are there another spelling: the newest counts, also
// where programs asked for another one, and where an editor saves.
func TestSpelledAnew(t *testing.T) {
	r := newRig(t)
	r.must(r.s.tree.Walk(t.Context()))
	other := r.loaded()
	check := func(names ...string) {
		t.Helper()
		wantListed("/", names, r, other, r.loaded())
	}
	r.wantOK(r.save("/"+nfd, "1", 0))
	check(nfd)
	other.wantLookup("/"+nfc, fuse.OK)
	check(nfd)
	r.wantOK(r.save("/new", "2", 0))
	r.wantOK(r.rename("/new", "/"+nfc, 0)) // as a program saves that knows no other form
	check(nfc)
	r.wantOK(r.rename("/"+nfc, "/"+nfc+"~", 0)) // as an editor saves
	r.wantOK(r.save("/"+nfd, "4", syscall.O_EXCL))
	r.wantOK(r.unlink("/" + nfc + "~"))
	check(nfd)
	r.wantOK(r.rename("/"+nfd, "/"+nfd+"~", 0))
	r.wantOK(r.save("/"+nfc, "5", syscall.O_EXCL))
	r.wantOK(r.unlink("/" + nfc + "~"))
	check(nfc)
	r.wantOK(r.rename("/"+nfc, "/"+nfd, 0)) // which is no rename
	check(nfc)
	other.wantOK(other.save("/new", "3", 0))
	other.wantOK(other.rename("/new", "/"+nfd, 0))
	check(nfd)
	r.remove("/" + nfc)
	r.put("/"+nfc, "/"+nfd, "5")
	check(nfd)
	r.remove("/" + nfc)
	r.write("/"+nfc, "6\n")
	check(nfc)
	r.wantLookup("/"+nfd, fuse.OK) // of which the history says nothing
	wantListed("/", []string{nfd}, r)
	wantListed("/", []string{nfc}, other)
	r.write("/"+nfc, "6\n7\n")
	wantListed("/", []string{nfd}, r)
	r.readOnce("/" + nfd)
	r.wantOK(r.save("/"+nfd, "6\n7\n8\n", 0)) // which makes no name
	wantListed("/", []string{nfd}, r)
	wantListed("/", []string{nfc}, other)
	r.move("/"+nfc, "/\u00fc")
	wantListed("/", []string{"\u00fc"}, r, other)
	fh, status := r.make("/" + nfd)
	r.wantOK(status)
	wantListed("/", []string{nfd, "\u00fc"}, r)
	r.write("/"+nfc, "theirs")
	wantListed("/", []string{nfc, "\u00fc"}, r)
	r.release(fh)
}

// TestSpelledAsAsked looks a name up that has three forms: it is listed as it was first
// asked for, unless the history says how.
func TestSpelledAsAsked(t *testing.T) {
	const composed, half, decomposed = "\u1ec7", "\u1eb9\u0302", "e\u0323\u0302"
	r := newRig(t, "/"+composed)
	r.must(r.s.tree.Walk(t.Context()))
	listed := func() { cacheOf(r.s.tree.Root()).Respelled = false }
	relisted := func(name string) {
		t.Helper()
		if !cacheOf(r.s.tree.Root()).Respelled {
			t.Error("the kernel is not told that a name is listed otherwise")
		}
		wantListed("/", []string{name}, r)
	}
	r.wantLookup("/"+composed, fuse.OK)
	wantListed("/", []string{composed}, r)
	listed()
	r.wantLookup("/"+half, fuse.OK)
	relisted(half)
	r.wantLookup("/"+decomposed, fuse.OK)
	wantListed("/", []string{half}, r)
	r.fs.Forget(r.s.tree.Root().ChildLocked(composed).ID(), 100)
	listed()
	r.put("/"+composed, "/"+decomposed, "1")
	r.follow()
	relisted(decomposed)
	r.wantLookup("/"+half, fuse.OK)
	wantListed("/", []string{decomposed}, r)
}

// TestSpelledSameBytes renames over a file what holds the same bytes, so that no version
// comes of it: here it is listed as the program has called it.
func TestSpelledSameBytes(t *testing.T) {
	r := newRig(t)
	r.put("/"+nfc, "/"+nfd, "1")
	r.must(r.s.begin(t.Context()))
	r.must(r.s.tree.Walk(t.Context()))
	wantListed("/", []string{nfd}, r)
	r.wantOK(r.save("/new", "1", 0))
	r.wantOK(r.rename("/new", "/"+nfc, 0))
	wantListed("/", []string{nfc}, r)
	wantListed("/", []string{nfd}, r.loaded())
}

// TestSpelledWhereItHides makes a directory again that still hides a memory.
func TestSpelledWhereItHides(t *testing.T) {
	r := newRig(t, "/"+nfc+"/f")
	r.must(r.s.tree.Walk(t.Context()))
	r.hide("/"+nfc+"/f", "/f~")
	r.rmdir("/" + nfc)
	r.wantOK(r.mkdir("/" + nfd))
	wantListed("/", []string{nfd, "f~"}, r)
}

// TestSpelledImplied: a directory that memories imply is listed as they spell it, and one
// that the log has as its own version does.
func TestSpelledImplied(t *testing.T) {
	r := newRig(t)
	r.must(r.s.tree.Walk(t.Context()))
	other := r.loaded()
	r.othersDir("/" + nfc)
	r.put("/"+nfc+"/f", "/"+nfd+"/f", "1")
	r.write("/\u00fc/\u00fc/x", "1")
	wantListed("/", []string{nfc, "\u00fc"}, r, other, r.loaded())
	before := cacheOf(other.s.tree.Root()).Respelled
	r.put("/\u00fc/\u00fc/y", "/u\u0308/u\u0308/y", "1")
	wantListed("/", []string{nfc, "u\u0308"}, r, r.loaded())
	wantListed("/\u00fc", []string{"u\u0308"}, r, r.loaded())
	if other.follow(); before || !cacheOf(other.s.tree.Root()).Respelled {
		t.Error("the kernel is not told that a name is listed otherwise")
	}
	wantListed("/", []string{nfc, "u\u0308"}, other)
	r.wantLookup("/"+nfd, fuse.OK) // of which its own version says nothing
	r.wantLookup("/z/u\u0308", fuse.ENOENT)
	r.write("/z/\u00fc/x", "1")
	r.follow()
	r.wantLookup("/z/u\u0308", fuse.OK)
	r.put("/z/\u00fc/"+nfc, "/z/\u00fc/"+nfd, "1")
	wantListed("/z", []string{"u\u0308"}, r)
	wantListed("/", []string{nfd, "u\u0308", "z"}, r)
	r.put("/z/"+nfc+"/\u00fc", "/z/"+nfd+"/\u00fc", "1")
	r.follow()
	r.wantLookup("/z/"+nfc+"/u\u0308", fuse.OK)
	wantListed("/z/"+nfc, []string{"u\u0308"}, r)
}

// TestSpelledByAnybody: what the history has as a spelling is listed only where it is
// another form of the path, and harms nothing else.
func TestSpelledByAnybody(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("\u00e9", 100)
	for _, v := range []struct{ path, spelling string }{
		{"/1" + nfc, "/../" + nfd}, {"/2" + nfc, "/2cafe"}, {"/3" + nfc, "/3" + nfd + "\n"}, {"/4" + nfc, "4" + nfd},
		{"/5" + nfc + "/x", "/5" + nfd}, {"/6" + nfc + "/\u00e9", "/6" + nfd + "/e\u0301/x"}, {"/7" + nfc + "/", "/7" + nfd},
		{"/8" + nfc + "/", "/8" + nfc + "/../"}, {"/" + long, "/" + strings.Repeat("e\u0301", 100)}, {"/K", "/\u212a"}, {"/z", "/.mneme"},
	} {
		c := versionlog.Change{Action: versionlog.Put, Path: v.path, Spelling: v.spelling, Digest: cas.Sum(nil), Expect: versionlog.ExpectAny()}
		if strings.HasSuffix(v.path, "/") {
			c.Action, c.Digest = versionlog.MakeDir, cas.Digest{}
		}
		_, err := r.log.Commit(t.Context(), r.s.memory.Info().ID, &versionlog.Proposal{Key: versionlog.NewKey(), Changes: []versionlog.Change{c}})
		r.must(err)
	}
	names := []string{"1" + nfc, "2" + nfc, "3" + nfc, "4" + nfc, "5" + nfc, "6" + nfc, "7" + nfc, "8" + nfc, "K", "z", long}
	m := r.loaded()
	r.must(r.s.tree.Walk(t.Context()))
	wantListed("/", names, r, m, r.beside())
	wantListed("/6"+nfc, []string{"\u00e9"}, r, m)
	r.wantOK(r.rename("/6"+nfc, "/9"+nfd, 0))
	wantListed("/9"+nfc, []string{"\u00e9"}, r, m)
	r.wantOK(r.save("/3"+nfc, "text", 0))
	if wrong := r.differs(); wrong != "" {
		t.Error(wrong)
	}
}

// TestSpelledThroughTheSpool kills a mount: what comes back of it is spelled as it was made.
func TestSpelledThroughTheSpool(t *testing.T) {
	r := newSpooled(t)
	r.wantOK(r.save("/"+nfd+".tmp", "text", syscall.O_EXCL))
	r.die()
	r.recovers("/" + nfc + ".tmp")
	wantListed("/", []string{nfd + ".tmp"}, r.loaded())
}
