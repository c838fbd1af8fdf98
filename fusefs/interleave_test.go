package fusefs

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/fusefs/tree"
	"mneme/internal/testing/logfault"
	"mneme/internal/testing/turn"
	"mneme/session/conflict"
	"mneme/spool"
	"mneme/versionlog"
)

// interleaving is a mount, and another session that commits before, during and after its
// requests, at random. The mount follows a part of the commits.
type interleaving struct {
	*rig
	random *rand.Rand
	texts  int // made so far
	open   []*openedFile
	beside []func() // what the follower has begun, to be done when no request is under way
	trace  []string
}

// openedFile is a handle that writes.
type openedFile struct {
	fh      uint64
	node    *tree.Entry
	path    string
	flags   uint32
	written []string // since it was last committed
	refused bool
}

var (
	minePaths  = []string{"/a", "/b", "/d/a", "/d/b", "/e/a", "/d/s/a", "/a~", "/b~", "/d/a~", "/a.tmp", "/d/b.tmp"}
	theirPaths = []string{"/a", "/b", "/d/a", "/d/b", "/e/a", "/d/s/a", "/d", "/e", "/a/x", "/a~"}
)

func (f *interleaving) pick(from []string) string { return from[f.random.IntN(len(from))] }
func (f *interleaving) chance(n int) bool         { return f.random.IntN(n) == 0 }

func (f *interleaving) text(who string) string {
	f.texts++
	return fmt.Sprintf("<%s%d>", who, f.texts)
}

func (f *interleaving) note(format string, args ...any) {
	f.trace = append(f.trace, fmt.Sprintf(format, args...))
}

func (f *interleaving) wrong(format string, args ...any) {
	f.Helper()
	f.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(f.trace, "\n"))
}

// theirs makes some changes by the other session.
func (f *interleaving) theirs() {
	for range f.random.IntN(3) {
		f.note("%s", f.theirChange(f.random, f.pick(theirPaths), f.pick(theirPaths), f.text))
		if f.chance(2) {
			f.followSome()
		}
	}
}

// theirChange makes a change by the other session, and says which.
func (r *rig) theirChange(random *rand.Rand, path, to string, text func(who string) string) string {
	var err error
	var what string
	switch random.IntN(7) {
	case 0, 1, 2:
		written := text("o")
		what = fmt.Sprintf("write %s to %s", written, path)
		_, err = r.other.Write(r.Context(), path, []byte(written), versionlog.ExpectAny())
	case 3:
		what = "remove " + path
		_, err = r.other.Remove(r.Context(), path, versionlog.ExpectAny())
	case 4:
		what = "remove all of " + path
		_, err = r.other.RemoveTree(r.Context(), path, nil, nil)
	default:
		what = fmt.Sprintf("rename %s to %s", path, to)
		_, err = r.other.Rename(r.Context(), path, to, nil)
	}
	return fmt.Sprintf("  they %s: %v", what, err)
}

// followSome follows a few commits, up to one that the mount is making.
func (f *interleaving) followSome() {
	left := []int{0, 1, 2, 1000}[f.random.IntN(4)]
	f.followWhile(func(c *versionlog.Commit) bool {
		if f.isUnderWay(c) {
			return false
		}
		if left--; left < 0 {
			return false
		}
		f.note("  followed %d", c.Seq)
		return true
	})
}

// dir is the directory of a path, if it is one.
func (f *interleaving) dir(path string) (id uint64, name string, ok bool) {
	dir, name := tree.Split(path)
	entry, status := f.lookup(dir)
	return entry.NodeId, name, status.Ok() && (dir == "" || entry.Mode&syscall.S_IFDIR != 0)
}

// repeated makes a call when it has looked the names up, and once more when that is
// answered with ESTALE, as the kernel does.
func (f *interleaving) repeated(call func() fuse.Status, paths ...string) (status fuse.Status) {
	for range 2 {
		for _, path := range paths {
			f.lookup(path)
		}
		if status = call(); status != fuse.Status(syscall.ESTALE) {
			break
		}
	}
	return status
}

// openAt opens a file, which is made if there is none and it is opened for writing.
func (f *interleaving) openAt(path string, flags uint32) *openedFile {
	for range 2 {
		o := &openedFile{path: path, flags: flags}
		entry, status := f.lookup(path)
		if status.Ok() {
			o.fh, status = f.rig.open(entry.NodeId, flags)
		} else if dir, name, ok := f.dir(path); ok && writes(flags) {
			var out fuse.CreateOut
			status = f.fs.Create(nil, &fuse.CreateIn{InHeader: header(dir), Flags: flags | syscall.O_CREAT, Mode: 0o644}, name, &out)
			o.fh, entry.NodeId = out.Fh, out.NodeId
		}
		f.note("open %s with %#x: %v", path, flags, status)
		if status.Ok() {
			o.node = f.node(entry.NodeId)
			return o
		}
		if status != fuse.Status(syscall.ESTALE) {
			return nil
		}
	}
	return nil
}

// overwritten notes that what was written to the handles of a file has been replaced.
func overwritten(open []*openedFile, n *tree.Entry) {
	for _, o := range open {
		if o.node.LatestLocked() == n.LatestLocked() {
			o.written = nil
		}
	}
}

func (f *interleaving) writeTo(o *openedFile) {
	text := f.text("m")
	if o.flags&syscall.O_APPEND == 0 { // all of it
		text += strings.Repeat(".", max(0, f.staged(o.fh)-len(text)))
		overwritten(f.open, o.node)
	}
	_, status := f.fs.Write(nil, &fuse.WriteIn{Fh: o.fh, Flags: o.flags}, []byte(text))
	f.note("write %s to %s: %v", text, o.path, status)
	switch {
	case status.Ok():
		o.written = append(o.written, text)
	case status == fuse.Status(DefaultConflictErrno):
		o.refused = true
		if !f.kept(text) {
			f.wrong("%s was refused, and is not kept", text)
		}
	}
}

// ended judges a close or fsync: what was written is in the history if it was
// acknowledged, and in a conflict if it was refused.
func (f *interleaving) ended(o *openedFile, call string, status fuse.Status) {
	f.note("%s %s: %v", call, o.path, status)
	looked := f.looking()
	private := o.node.IsUnloggedLocked() || o.node.LatestLocked().IsRemovedLocked()
	looked()
	if private {
		return
	}
	if wrong := f.lost(o, status); wrong != "" {
		f.wrong("%s", wrong)
	}
}

// lost says which of the bytes written to a handle are lost, when a close or fsync of it has
// ended with a status, or "".
func (r *rig) lost(o *openedFile, status fuse.Status) string {
	for _, text := range o.written {
		switch {
		case status.Ok() && !o.refused && !r.inHistory(text):
			return text + " was acknowledged, and is not in the history"
		case status == fuse.Status(DefaultConflictErrno) && !r.kept(text) && !r.inHistory(text):
			return text + " was refused, and is not kept"
		}
	}
	if status.Ok() {
		o.written = nil
	}
	return ""
}

func (f *interleaving) closeOne(i int) {
	o := f.open[i]
	f.open = slices.Delete(f.open, i, i+1)
	f.ended(o, "close", f.fs.Flush(nil, &fuse.FlushIn{Fh: o.fh}))
	f.fs.Release(nil, &fuse.ReleaseIn{Fh: o.fh})
}

// step makes a request, with changes by the other session on both sides of its
// commit.
func (f *interleaving) step() {
	if f.chance(2) {
		f.log.Next(logfault.BeforeCommit, f.theirs)
	}
	if f.chance(2) {
		f.log.Next(logfault.AfterCommit, f.theirs)
	}
	path, to := f.pick(minePaths), f.pick(minePaths)
	switch f.random.IntN(15) {
	case 0, 1:
		if o := f.openAt(path, syscall.O_RDONLY); o != nil {
			f.note("read %q", f.read(o.node.ID(), o.fh))
			f.close(o.fh)
		}
	case 2, 3, 4:
		flags := []uint32{syscall.O_WRONLY | syscall.O_TRUNC, syscall.O_WRONLY, syscall.O_WRONLY | syscall.O_APPEND, syscall.O_RDWR}[f.random.IntN(4)]
		o := f.openAt(path, flags)
		if o == nil {
			return
		}
		if flags&syscall.O_TRUNC != 0 {
			overwritten(f.open, o.node)
		}
		f.open = append(f.open, o)
		if flags == syscall.O_RDWR && f.chance(2) {
			f.note("read %q", f.read(o.node.ID(), o.fh))
		}
		if f.chance(2) {
			f.theirs()
		}
		f.writeTo(o)
	case 5:
		if len(f.open) > 0 {
			f.writeTo(f.open[f.random.IntN(len(f.open))])
		}
	case 6, 7, 8:
		if len(f.open) > 0 {
			f.closeOne(f.random.IntN(len(f.open)))
		}
	case 9:
		if len(f.open) > 0 {
			o := f.open[f.random.IntN(len(f.open))]
			f.ended(o, "fsync", f.fs.Fsync(nil, &fuse.FsyncIn{Fh: o.fh}))
		}
	case 10, 11:
		if f.chance(4) {
			path, to = f.pick([]string{"/d", "/e", "/d/s"}), f.pick([]string{"/d", "/e", "/d/s", "/e/s"})
		}
		f.move(path, to)
	case 12:
		if dir, name, ok := f.dir(path); ok {
			in := header(dir)
			f.note("unlink %s: %v", path, f.repeated(func() fuse.Status { return f.fs.Unlink(nil, &in, name) }, path))
		}
	case 13:
		root, _ := f.lookup("")
		in, name := header(root.NodeId), f.pick([]string{"d", "e"})
		if f.chance(2) {
			f.note("mkdir %s: %v", name, f.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: in, Mode: 0o755}, name, &fuse.EntryOut{}))
		} else {
			f.note("rmdir %s: %v", name, f.fs.Rmdir(nil, &in, name))
		}
	case 14:
		f.truncate(path)
	}
}

// truncate empties a file by its name.
func (f *interleaving) truncate(path string) {
	entry, status := f.lookup(path)
	if !status.Ok() || entry.Mode&syscall.S_IFDIR != 0 {
		return
	}
	n := f.node(entry.NodeId)
	status = f.rig.truncate(entry.NodeId, 0)
	f.note("truncate %s: %v", path, status)
	if status.Ok() {
		overwritten(f.open, n)
	}
}

func (f *interleaving) move(path, to string) {
	dir, name, ok := f.dir(path)
	toDir, newName, toOK := f.dir(to)
	if !ok || !toOK || strings.HasPrefix(path+"/", to+"/") || strings.HasPrefix(to, path+"/") {
		return
	}
	status := f.repeated(func() fuse.Status {
		return f.fs.Rename(nil, &fuse.RenameIn{InHeader: header(dir), Newdir: toDir}, name, newName)
	}, path, to)
	f.note("rename %s to %s: %v", path, to, status)
	for _, o := range f.open {
		if status.Ok() && o.path == path {
			o.path = to
		}
	}
}

// compare looks at the tree, when all has been followed.
func (f *interleaving) compare() {
	f.note("follow")
	f.follow()
	for len(f.beside) > 0 {
		do := f.beside[0]
		f.beside = f.beside[1:]
		do()
		f.follow()
	}
	if wrong := f.differs(); wrong != "" {
		f.wrong("%s", wrong)
	}
}

// seeds yields as many seeds, one after another, as a short or a long run takes. The
// short run's are always the same.
func seeds(short int, long uint64) iter.Seq[uint64] {
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	begin, count := turn.Share(short, 4)
	runs, first := uint64(count), 1+uint64(begin)
	if os.Getenv("MNEME_TORTURE") != "" {
		runs, first = long, rand.Uint64()
	}
	runs, first = number("MNEME_RUNS", runs), number("MNEME_SEED", first)
	return func(yield func(uint64) bool) {
		for i := range runs {
			if !yield(first + i) {
				return
			}
		}
	}
}

// TestInterleavings: whenever another session commits, and whenever the mount hears of it,
// nothing that was acknowledged or refused is lost, and the tree becomes what the log has. The
// notes for another process are the state after each request, and in the end that process has it.
// In every other two runs commits or their replies are lost, in every other four the log tells
// its tip at once; one in five mounts is flat. MNEME_RUNS and MNEME_SEED make it look for longer,
// and again.
func TestInterleavings(t *testing.T) {
	for seed := range seeds(200, 20_000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			kept := conflict.New(t.TempDir()) // first, so that it is removed last
			f := &interleaving{rig: newRig(t, "/a", "/d/a"), random: rand.New(rand.NewPCG(seed, 0))}
			f.keepIn(kept)
			f.patience().temporary = time.Hour // however slow the machine is, steps alone decide
			f.s.beside = func(do func()) { f.beside = append(f.beside, do) }
			if seed%5 == 0 {
				f.flatten()
			}
			if seed%3 == 0 {
				f.s.spool = spool.New(kept.Dir(), minSpoolBytes)
			}
			f.log.SetKnowsTip(seed%8 >= 4)
			if seed%4 >= 2 {
				f.log.SetFate(func() logfault.Fate {
					ends := fates[f.random.IntN(len(fates))]
					f.note("  a commit is %s", []string{"made", "made, unheard", "not made"}[ends])
					return ends
				})
			}
			loads := 0
			if seed%2 == 1 {
				loads = 10
			}
			journal := f.hand()
			for i := range 30 {
				if i == loads {
					f.must(f.s.tree.Walk(context.Background()))
				}
				f.step()
				f.log.Forget()
				if f.wantCounted(); t.Failed() {
					f.wrong("that is not what is counted")
				}
				if f.wantNoted(journal); t.Failed() {
					f.wrong("that is not what is noted")
				}
				if f.chance(3) {
					f.theirs()
				}
				if i >= loads && f.chance(3) {
					f.compare()
				}
			}
			f.compare()
			next, left := f.takeOver(journal)
			next.wantCounted()
			if f.wantTakenOver(next, left); t.Failed() {
				f.wrong("that is not what was taken over")
			}
			for len(f.open) > 0 {
				f.closeOne(0)
			}
			f.compare()
		})
		if t.Failed() {
			return
		}
	}
}
