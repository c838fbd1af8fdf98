package fusefs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/fusefs/tree"
	"mneme/internal/testing/logfault"
	"mneme/session/conflict"
	"mneme/spool"
)

// parallel is a mount of which several threads make requests at once, while another
// session commits and the follower brings in what that does.
type parallel struct {
	*rig
	names sync.RWMutex // for the locks that the kernel takes on directories

	mu    sync.Mutex // guards what follows
	texts int
	trace []string
	wrong string // the first complaint
}

func (p *parallel) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// complain notes what is wrong.
func (p *parallel) complain(format string, args ...any) {
	p.note(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrong == "" {
		p.wrong = fmt.Sprintf(format, args...)
	}
}

func (p *parallel) text(who string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts++
	return fmt.Sprintf("<%s%d>", who, p.texts)
}

// thread makes requests one after another.
type thread struct {
	*parallel
	number int
	random *rand.Rand
	judged bool // it alone writes to its files, so that it knows what has to come of that
	dirs   bool // it does nothing but rename directories
	open   []*openedFile
}

func (t *thread) chance(n int) bool { return t.random.IntN(n) == 0 }

// file is one of minePaths or, of a thread that is judged, one of its own.
func (t *thread) file() string {
	path := minePaths[t.random.IntN(len(minePaths))]
	if !t.judged {
		return path
	}
	dir, name := tree.Split(path)
	return fmt.Sprintf("%s/%d%s", dir, t.number, name)
}

func (t *thread) header(id uint64) fuse.InHeader {
	return fuse.InHeader{NodeId: id, Caller: fuse.Caller{Pid: uint32(t.number)}}
}

// walk goes down a path as the kernel does. It returns the directory, 0 if there is
// none, and what is there; NodeId 0 is nothing.
func (t *thread) walk(path string) (dir uint64, name string, entry fuse.EntryOut) {
	entry.NodeId, entry.Mode = t.s.tree.Root().ID(), syscall.S_IFDIR
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		if entry.Mode&syscall.S_IFDIR == 0 {
			return 0, "", fuse.EntryOut{}
		}
		dir, name = entry.NodeId, part
		in := t.header(dir)
		entry = fuse.EntryOut{}
		if status := t.fs.Lookup(nil, &in, part, &entry); !status.Ok() || entry.NodeId == 0 {
			if i < len(parts)-1 {
				dir = 0
			}
			return dir, name, fuse.EntryOut{}
		}
	}
	return dir, name, entry
}

// changing makes a change of names, and again when it is answered with ESTALE, while
// no other thread changes names or looks them up.
func (t *thread) changing(call func() fuse.Status) (status fuse.Status) {
	t.names.Lock()
	defer t.names.Unlock()
	for range 2 {
		if status = call(); status != fuse.Status(syscall.ESTALE) {
			break
		}
	}
	return status
}

// openAt opens a file, which is made if there is none and it is opened for writing.
func (t *thread) openAt(path string, flags uint32) *openedFile {
	for range 2 {
		o := &openedFile{path: path, flags: flags}
		t.names.RLock()
		_, _, entry := t.walk(path)
		t.names.RUnlock()
		status := fuse.ENOENT
		switch {
		case entry.NodeId != 0 && entry.Mode&syscall.S_IFDIR == 0:
			var out fuse.OpenOut
			status = t.fs.Open(nil, &fuse.OpenIn{InHeader: t.header(entry.NodeId), Flags: flags}, &out)
			o.fh = out.Fh
		case entry.NodeId == 0 && writes(flags):
			t.names.Lock()
			if dir, name, there := t.walk(path); dir != 0 && there.NodeId == 0 {
				var out fuse.CreateOut
				in := &fuse.CreateIn{InHeader: t.header(dir), Flags: flags | syscall.O_CREAT, Mode: 0o644}
				status = t.fs.Create(nil, in, name, &out)
				o.fh, entry.NodeId = out.Fh, out.NodeId
			}
			t.names.Unlock()
		}
		t.note("%d: open %s with %#x: %v", t.number, path, flags, status)
		if status.Ok() {
			o.node = t.node(entry.NodeId)
			return o
		}
		if status != fuse.Status(syscall.ESTALE) {
			return nil
		}
	}
	return nil
}

func (t *thread) writeTo(o *openedFile) {
	text := t.text("m")
	if o.flags&syscall.O_APPEND == 0 { // all of it
		text += strings.Repeat(".", max(0, t.staged(o.fh)-len(text)))
		looked := t.looking()
		overwritten(t.open, o.node)
		looked()
	}
	_, status := t.fs.Write(nil, &fuse.WriteIn{InHeader: t.header(o.node.ID()), Fh: o.fh, Flags: o.flags}, []byte(text))
	t.note("%d: write %s to %s: %v", t.number, text, o.path, status)
	switch {
	case status.Ok():
		o.written = append(o.written, text)
	case status == fuse.Status(DefaultConflictErrno):
		o.refused = true
		if t.judged && !t.kept(text) {
			t.complain("%s was refused, and is not kept", text)
		}
	}
}

// ends makes a close or fsync, and judges it as interleaving.ended does.
func (t *thread) ends(o *openedFile, name string, call func() fuse.Status) {
	looked := t.looking()
	private := o.node.IsUnloggedLocked() && t.class(o.node) != ordinary // whatever it is by the time of the commit
	looked()
	status := call()
	t.note("%d: %s %s: %v", t.number, name, o.path, status)
	looked = t.looking()
	private = private || o.node.IsUnloggedLocked() || o.node.LatestLocked().IsUnloggedLocked() || o.node.LatestLocked().IsRemovedLocked()
	looked()
	if private || !t.judged {
		return
	}
	if wrong := t.lost(o, status); wrong != "" {
		t.complain("%s", wrong)
	}
}

func (t *thread) closeOne(i int) {
	o := t.open[i]
	t.open = slices.Delete(t.open, i, i+1)
	t.ends(o, "close", func() fuse.Status {
		return t.fs.Flush(nil, &fuse.FlushIn{InHeader: t.header(o.node.ID()), Fh: o.fh})
	})
	t.fs.Release(nil, &fuse.ReleaseIn{InHeader: t.header(o.node.ID()), Fh: o.fh})
}

// move renames a file or directory, if the kernel would ask for that.
func (t *thread) move(path, to string, flags uint32) {
	if strings.HasPrefix(to+"/", path+"/") || strings.HasPrefix(path, to+"/") {
		return
	}
	status := t.changing(func() fuse.Status {
		dir, name, from := t.walk(path)
		toDir, newName, target := t.walk(to)
		switch {
		case from.NodeId == 0 || toDir == 0:
			return fuse.ENOENT
		case target.NodeId != 0 && (flags != 0 || (target.Mode^from.Mode)&syscall.S_IFMT != 0 || target.NodeId == from.NodeId):
			return fuse.Status(syscall.EEXIST)
		}
		return t.fs.Rename(nil, &fuse.RenameIn{InHeader: t.header(dir), Newdir: toDir, Flags: flags}, name, newName)
	})
	t.note("%d: rename %s to %s with %d: %v", t.number, path, to, flags, status)
}

// remove unlinks a file, or removes a directory.
func (t *thread) remove(path string) {
	status := t.changing(func() fuse.Status {
		dir, name, entry := t.walk(path)
		in := t.header(dir)
		switch {
		case entry.NodeId == 0:
			return fuse.ENOENT
		case entry.Mode&syscall.S_IFDIR != 0:
			return t.fs.Rmdir(nil, &in, name)
		}
		return t.fs.Unlink(nil, &in, name)
	})
	t.note("%d: remove %s: %v", t.number, path, status)
}

func (t *thread) makeDir(path string) {
	status := t.changing(func() fuse.Status {
		dir, name, entry := t.walk(path)
		if dir == 0 || entry.NodeId != 0 {
			return fuse.Status(syscall.EEXIST)
		}
		return t.fs.Mkdir(nil, &fuse.MkdirIn{InHeader: t.header(dir), Mode: 0o755}, name, &fuse.EntryOut{})
	})
	t.note("%d: mkdir %s: %v", t.number, path, status)
}

// step makes a request or a few.
func (t *thread) step() {
	dirs := []string{"/d", "/e", "/d/s", "/e/s"}
	if t.dirs {
		t.move(dirs[t.random.IntN(4)], dirs[t.random.IntN(4)], 0)
		return
	}
	flags := []uint32{
		syscall.O_WRONLY | syscall.O_TRUNC, syscall.O_WRONLY, syscall.O_WRONLY | syscall.O_APPEND, syscall.O_RDWR, syscall.O_RDONLY,
	}[t.random.IntN(5)]
	switch t.random.IntN(14) {
	case 0, 1, 2, 3, 4:
		o := t.openAt(t.file(), flags)
		if o == nil {
			return
		}
		if flags == syscall.O_RDONLY || flags == syscall.O_RDWR && t.chance(2) {
			in := &fuse.ReadIn{InHeader: t.header(o.node.ID()), Fh: o.fh}
			if _, status := t.fs.Read(nil, in, make([]byte, 4096)); !status.Ok() {
				t.complain("read of %s: %v", o.path, status)
			}
		}
		t.open = append(t.open, o)
		if flags != syscall.O_RDONLY {
			t.writeTo(o)
		}
	case 5, 6, 7:
		if len(t.open) > 0 {
			t.closeOne(t.random.IntN(len(t.open)))
		}
	case 8:
		if len(t.open) > 0 {
			o := t.open[t.random.IntN(len(t.open))]
			t.ends(o, "fsync", func() fuse.Status {
				return t.fs.Fsync(nil, &fuse.FsyncIn{InHeader: t.header(o.node.ID()), Fh: o.fh})
			})
		}
	case 9, 10:
		t.move(t.file(), t.file(), []uint32{0, 0, unix.RENAME_NOREPLACE}[t.random.IntN(3)])
	case 11:
		t.move(dirs[t.random.IntN(4)], dirs[t.random.IntN(4)], 0)
	case 12:
		t.remove(t.file())
	case 13:
		if path := dirs[t.random.IntN(4)]; t.chance(2) {
			t.makeDir(path)
		} else {
			t.remove(path)
		}
	}
}

// theirs makes changes by the other session, to the files that the threads change.
func (p *parallel) theirs(random *rand.Rand, changes int, judged int) {
	pick := func() string {
		path := theirPaths[random.IntN(len(theirPaths))]
		if dir, name := tree.Split(path); judged > 0 && random.IntN(4) > 0 {
			path = fmt.Sprintf("%s/%d%s", dir, 1+random.IntN(judged), name)
		}
		return path
	}
	for range changes {
		p.note("%s", p.theirChange(random, pick(), pick(), p.text))
		if random.IntN(2) == 0 {
			time.Sleep(rand.N(200 * time.Microsecond))
		}
	}
}

// settled waits until the follower has brought all that is in the log.
func (p *parallel) settled() {
	p.Helper()
	tip, err := p.other.Tip(p.Context())
	p.must(err)
	ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
	defer cancel()
	if p.s.tree.AwaitApplied(ctx, tip.Seq) != nil {
		defer p.looking()()
		p.complain("the follower is at %d, the log at %d", p.s.tree.AppliedLocked(), tip.Seq)
	}
}

// TestParallel is TestInterleavings with several threads, two of which only rename directories,
// and the follower itself: which events meet depends on the scheduler, so that a seed does not
// repeat a run. In every other run the threads write to files of their own, and are judged by
// what was acknowledged; in every other two, commits or their replies are lost.
func TestParallel(t *testing.T) {
	for seed := range seeds(200, 10_000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const threads, movers = 4, 2
			kept := conflict.New(t.TempDir()) // first, so that it is removed last
			p := &parallel{rig: newRig(t, "/a", "/d/a", "/1a", "/d/2a")}
			p.s.kept, p.s.patience = kept, time.Second
			p.configure(func(o *Options) { o.Merge = seed%8 >= 4 })
			if seed%3 == 2 {
				p.s.spool = spool.New(kept.Dir(), minSpoolBytes)
			}
			if seed%4 >= 2 {
				p.log.SetFate(func() logfault.Fate { return fates[rand.N(len(fates))] })
			}
			judged := seed%2 == 1
			p.followBeside()
			if seed%3 == 0 {
				p.must(p.s.tree.Walk(t.Context()))
			}
			var work sync.WaitGroup
			for i := 1; i <= threads+movers; i++ {
				th := &thread{parallel: p, number: i, random: rand.New(rand.NewPCG(seed, uint64(i))), judged: judged, dirs: i > threads}
				work.Go(func() {
					for range 15 {
						th.step()
						runtime.Gosched()
					}
					for len(th.open) > 0 {
						th.closeOne(0)
					}
				})
			}
			work.Go(func() {
				number := 0
				if judged {
					number = threads
				}
				p.theirs(rand.New(rand.NewPCG(seed, 0)), 20, number)
			})
			if seed%3 != 0 {
				work.Go(func() {
					time.Sleep(rand.N(2 * time.Millisecond))
					p.must(p.s.tree.Walk(t.Context()))
				})
			}
			work.Wait()
			p.settled()
			if wrong := p.differs(); wrong != "" {
				p.complain("%s", wrong)
			}
			if p.wrong != "" {
				t.Errorf("%s\n%s", p.wrong, strings.Join(p.trace, "\n"))
			}
		})
		if t.Failed() {
			return
		}
	}
}
