package fusefs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// slowLog hands heads out in pages of two that are old by the time they
// arrive, counts the reads, and fails when it is told to.
type slowLog struct {
	versionlog.Log
	page  func()       // called between reading a page and handing it out
	head  func()       // called between the next read of one head and handing it out
	tip   func()       // called before the next look at the tip
	early func()       // called before the next commit of the mount's
	late  func()       // called between it and its reply
	fate  func() fate  // of every commit of the mount's; nil: all go well
	knows bool         // the tip, at once
	fail  atomic.Bool  // all reads of heads end in errDown
	reads atomic.Int64 // of heads
}

var errDown = errors.New("the log is down")

// fate is what becomes of a commit. But for the first, the mount is told errDown.
type fate int

const (
	fine    fate = iota
	unheard      // made, and its reply is lost
	unmade
)

// fates are as likely as commits go well or not at random.
var fates = []fate{fine, fine, fine, fine, fine, fine, unheard, unmade}

const slowPage = 2

func (l *slowLog) Head(ctx context.Context, store, path string) (versionlog.Version, error) {
	l.reads.Add(1)
	if l.fail.Load() {
		return versionlog.Version{}, errDown
	}
	v, err := l.Log.Head(ctx, store, path)
	callOnce(&l.head)
	return v, err
}

func (l *slowLog) Tip(ctx context.Context, store string) (versionlog.Tip, error) {
	callOnce(&l.tip)
	return l.Log.Tip(ctx, store)
}

// Capabilities hides that of memlog, whose commits would come past l.
func (l *slowLog) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{KnownTip: l.knownTip}
}

func (l *slowLog) knownTip(store string) (versionlog.Tip, bool) {
	if !l.knows {
		return versionlog.Tip{}, false
	}
	tip, err := l.Log.Tip(context.Background(), store)
	return tip, err == nil
}

// callOnce calls a hook, if it is set, which ends it.
func callOnce(hook *func()) {
	if then := *hook; then != nil {
		*hook = nil
		then()
	}
}

func (l *slowLog) Commit(ctx context.Context, store string, p *versionlog.Proposal) (*versionlog.Commit, error) {
	if p.Session != "mine" {
		return l.Log.Commit(ctx, store, p)
	}
	callOnce(&l.early)
	ends := fine
	if l.fate != nil {
		ends = l.fate()
	}
	if ends == unmade {
		return nil, errDown
	}
	c, err := l.Log.Commit(ctx, store, p)
	callOnce(&l.late)
	if ends == unheard {
		return nil, errDown
	}
	return c, err
}

func (l *slowLog) Heads(ctx context.Context, store, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return l.paged(func() iter.Seq2[versionlog.Version, error] { return l.Log.Heads(ctx, store, prefix, after) })
}

func (l *slowLog) Children(ctx context.Context, store, dir string) iter.Seq2[versionlog.Version, error] {
	return l.paged(func() iter.Seq2[versionlog.Version, error] { return l.Log.Children(ctx, store, dir) })
}

func (l *slowLog) paged(walk func() iter.Seq2[versionlog.Version, error]) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		last := ""
		for {
			l.reads.Add(1)
			var page []versionlog.Version
			for v, err := range walk() {
				if err != nil {
					yield(v, err)
					return
				}
				if v.Path > last && len(page) < slowPage {
					page = append(page, v)
				}
			}
			if l.page != nil {
				l.page()
			}
			if l.fail.Load() {
				yield(versionlog.Version{}, errDown)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if len(page) < slowPage {
				return
			}
			last = page[len(page)-1].Path
		}
	}
}

// rig is a store, a mount of it whose requests the test makes itself, and
// another session.
type rig struct {
	*testing.T
	log   *slowLog
	blobs cas.Store
	fs    *fileSystem
	s     *store
	other *memory.Store
	stop  context.CancelFunc
}

// archive archives the store.
func (r *rig) archive() {
	r.must(memory.NewLibrary(r.log, nil).ArchiveStore(r.Context(), r.s.memory.Info().ID, versionlog.Actor{}))
}

// newRig makes a store that holds files with their own path as content, and
// a mount that has yet to load and to follow.
func newRig(t *testing.T, files ...string) *rig {
	t.Helper()
	r := &rig{T: t, log: &slowLog{Log: memlog.New(nil)}, blobs: memcas.New()}
	lib := memory.NewLibrary(r.log, func(string) (cas.Store, error) { return r.blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	r.must(err)
	r.other, err = lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}})
	r.must(err)
	for _, path := range files {
		r.write(path, path)
	}
	mine, err := lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "mine"}, Session: "mine"})
	r.must(err)
	ctx, stop := context.WithCancel(t.Context())
	r.fs = newFileSystem(ctx, []*memory.Store{mine}, Options{Logger: slog.New(slog.DiscardHandler), Session: "mine"})
	r.fs.notify.closed = true // so that nobody waits for a kernel
	r.s, r.stop = r.fs.stores[0], stop
	r.s.patience = time.Microsecond // nobody follows beside, unless the test has somebody
	r.must(r.s.begin(ctx))
	r.log.reads.Store(0)
	r.Cleanup(func() {
		stop()
		r.fs.tasks.Wait()
	})
	return r
}

// keep keeps what loses a race in a directory.
func (r *rig) keep() {
	r.s.kept = conflict.New(r.TempDir())
	r.Cleanup(func() { // before the directory is removed
		r.stop()
		r.fs.tasks.Wait()
	})
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// write is the other session's.
func (r *rig) write(path, text string) {
	r.Helper()
	_, err := r.other.Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
}

// remove is the other session's.
func (r *rig) remove(path string) {
	r.Helper()
	_, err := r.other.Remove(r.Context(), path, versionlog.ExpectAny())
	r.must(err)
}

// follow brings what is in the log into the tree, as the follower does.
func (r *rig) follow() {
	r.Helper()
	r.followWhile(func(*versionlog.Commit) bool { return true })
}

// followWhile is follow up to the first commit that is not to be met.
func (r *rig) followWhile(more func(*versionlog.Commit) bool) {
	r.Helper()
	for c, err := range r.other.Commits(r.Context(), r.s.applied) {
		r.must(err)
		if !more(c) {
			return
		}
		r.s.meet(r.Context(), c)
	}
}

// walkTo lets the walk hand out n pages before it calls then, with the next
// one read, and ends it.
func (r *rig) walkTo(n int, then func()) {
	r.Helper()
	pages := 0
	r.log.page = func() {
		if pages == n {
			r.log.page = nil
			then()
		}
		pages++
	}
	r.must(r.s.walk(r.Context()))
}

// node is the one of an id. A scratch file that lingers may become a memory beside.
func (r *rig) node(id uint64) *node {
	r.fs.mu.RLock()
	defer r.fs.mu.RUnlock()
	return r.fs.nodes[id]
}

func header(id uint64) fuse.InHeader { return fuse.InHeader{NodeId: id} }

// lookup goes down a path as the kernel does.
func (r *rig) lookup(path string) (fuse.EntryOut, fuse.Status) {
	out := fuse.EntryOut{NodeId: r.s.root.id}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		in := header(out.NodeId)
		out = fuse.EntryOut{}
		if status := r.fs.Lookup(nil, &in, name, &out); !status.Ok() || out.NodeId == 0 {
			if status.Ok() {
				status = fuse.ENOENT // a negative entry
			}
			return out, status
		}
	}
	return out, fuse.OK
}

func (r *rig) wantLookup(path string, want fuse.Status) fuse.EntryOut {
	r.Helper()
	out, status := r.lookup(path)
	if status != want {
		r.Errorf("lookup of %s: %v, want %v", path, status, want)
	}
	return out
}

// parent is the id of the directory a path lies in, and its name there.
func (r *rig) parent(path string) (uint64, string) {
	r.Helper()
	dir, name := split(path)
	out, status := r.lookup(dir)
	if !status.Ok() {
		r.Fatalf("lookup of %s: %v", dir, status)
	}
	return out.NodeId, name
}

// names lists a directory.
func (r *rig) names(dir string) ([]string, fuse.Status) {
	entry, status := r.lookup(dir)
	if !status.Ok() {
		return nil, status
	}
	var open fuse.OpenOut
	if status := r.fs.OpenDir(nil, &fuse.OpenIn{InHeader: header(entry.NodeId)}, &open); !status.Ok() {
		return nil, status
	}
	in := &fuse.ReadIn{InHeader: header(entry.NodeId), Fh: open.Fh}
	var names []string
	status = r.fs.readDir(in, func(e dirEntry) bool {
		if e.name != "." && e.name != ".." {
			names = append(names, e.name)
		}
		return true
	})
	r.fs.ReleaseDir(&fuse.ReleaseIn{Fh: open.Fh})
	return names, status
}

func (r *rig) wantNames(dir string, want ...string) {
	r.Helper()
	got, status := r.names(dir)
	if !status.Ok() || !slices.Equal(got, want) {
		r.Errorf("%s holds %q (%v), want %q", dir, got, status, want)
	}
}

// open opens the file that the kernel knows by an id.
func (r *rig) open(id uint64, flags uint32) (fh uint64, status fuse.Status) {
	var out fuse.OpenOut
	status = r.fs.Open(nil, &fuse.OpenIn{InHeader: header(id), Flags: flags}, &out)
	return out.Fh, status
}

// read returns the beginning of an open file.
func (r *rig) read(id, fh uint64) string {
	r.Helper()
	result, status := r.fs.Read(nil, &fuse.ReadIn{InHeader: header(id), Fh: fh}, make([]byte, 4096))
	if !status.Ok() {
		r.Errorf("read: %v", status)
		return ""
	}
	data, _ := result.Bytes(nil)
	return string(data)
}

// close ends a handle as a program does, with the result of its close.
func (r *rig) close(fh uint64) fuse.Status {
	status := r.fs.Flush(nil, &fuse.FlushIn{Fh: fh})
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	return status
}

// save writes a file as a program does; the result is that of the first call
// that fails.
func (r *rig) save(path, text string, flags uint32) fuse.Status {
	r.Helper()
	dir, name := r.parent(path)
	var created fuse.CreateOut
	var fh uint64
	if entry, status := r.lookup(path); status.Ok() && flags&syscall.O_EXCL == 0 {
		if fh, status = r.open(entry.NodeId, syscall.O_WRONLY|syscall.O_TRUNC); !status.Ok() {
			return status
		}
	} else {
		in := &fuse.CreateIn{InHeader: header(dir), Flags: syscall.O_WRONLY | syscall.O_CREAT | flags, Mode: 0o644}
		if status := r.fs.Create(nil, in, name, &created); !status.Ok() {
			return status
		}
		fh = created.Fh
	}
	_, status := r.fs.Write(nil, &fuse.WriteIn{Fh: fh}, []byte(text))
	if status.Ok() {
		status = r.fs.Flush(nil, &fuse.FlushIn{Fh: fh})
	}
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
	return status
}

// truncate cuts the file that the kernel knows by an id, as truncate(2) does.
func (r *rig) truncate(id, size uint64) fuse.Status {
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: header(id), Valid: fuse.FATTR_SIZE, Size: size}}
	return r.fs.SetAttr(nil, in, &fuse.AttrOut{})
}

func (r *rig) rename(from, to string, flags uint32) fuse.Status {
	r.Helper()
	fromDir, oldName := r.parent(from)
	toDir, newName := r.parent(to)
	return r.fs.Rename(nil, &fuse.RenameIn{InHeader: header(fromDir), Newdir: toDir, Flags: flags}, oldName, newName)
}

// wantText opens a file and reads it.
func (r *rig) wantText(path, want string) {
	r.Helper()
	entry := r.wantLookup(path, fuse.OK)
	fh, status := r.open(entry.NodeId, syscall.O_RDONLY)
	if !status.Ok() {
		r.Errorf("open of %s: %v", path, status)
		return
	}
	if got := r.read(entry.NodeId, fh); got != want {
		r.Errorf("%s holds %q, want %q", path, got, want)
	}
	r.close(fh)
}

// wantAsLog compares the tree with the log once everything has loaded.
func (r *rig) wantAsLog() {
	r.Helper()
	r.follow()
	heads := map[string]string{}
	for v, err := range r.other.Heads(r.Context(), "/") {
		r.must(err)
		heads[v.Path] = fmt.Sprint(v.ID, " ", v.Size)
	}
	r.fs.mu.RLock()
	defer r.fs.mu.RUnlock()
	if !r.s.loading.done {
		r.Error("the heads have not loaded")
	}
	if diff := cmp.Diff(heads, filesOf(r.s.root, "")); diff != "" {
		r.Errorf("the tree differs from the log (-log +tree):\n%s", diff)
	}
}

// differs says how the tree differs from the log, of which all has been followed,
// or "". What is hidden counts where the log has it; scratch files do not.
func (r *rig) differs() (wrong string) {
	heads := map[string]string{}
	for v, err := range r.other.Heads(r.Context(), "/") {
		r.must(err)
		heads[v.Path] = v.ID
	}
	tree := map[string]string{}
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for name, d := range n.hiddenDirs {
			if walk(d, path+"/"+name); d.parent != n || d.name != name || !d.hides() {
				wrong = fmt.Sprintf("%s/%s is hidden, and hides nothing", path, name)
			}
		}
		for name, c := range n.hidden {
			if c.origin == nil || c.parent == nil {
				wrong = fmt.Sprintf("what is hidden at %s/%s has no other name", path, name)
			}
			tree[path+"/"+name] = c.head.ID
		}
		for name, c := range n.children {
			switch {
			case r.fs.nodes[c.id] != c:
				wrong = fmt.Sprintf("%s/%s cannot be opened", path, name)
			case c.isDir():
				walk(c, path+"/"+name)
			case !c.local:
				tree[path+"/"+name] = c.head.ID
			}
		}
	}
	r.fs.mu.RLock()
	defer r.fs.mu.RUnlock()
	walk(r.s.root, "")
	if fmt.Sprint(heads) != fmt.Sprint(tree) {
		return fmt.Sprintf("the log has  %v\nthe tree has %v", heads, tree)
	}
	return wrong + r.dirsDiffer()
}

// inHistory reports whether some version of the store holds a text.
func (r *rig) inHistory(text string) bool {
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			if v.Live() && !v.IsDir() {
				data, err := r.other.Content(r.Context(), v)
				r.must(err)
				if strings.Contains(string(data), text) {
					return true
				}
			}
		}
	}
	return false
}
