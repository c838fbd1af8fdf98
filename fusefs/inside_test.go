package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs/tree"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// newRig makes a store that holds files with their own path as content, and
// a mount that has yet to load and to follow.
func newRig(t *testing.T, files ...string) *rig {
	t.Helper()
	r := &rig{T: t, blobs: memcas.New()}
	r.log = logfault.New(memlog.New(nil), &logfault.Options{Session: "mine", PageSize: slowPage})
	lib := memory.NewLibrary(r.log, func(string) (cas.Store, error) { return r.blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	r.must(err)
	r.other, err = lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}})
	r.must(err)
	for _, path := range files {
		r.write(path, path)
	}
	mine, err := lib.Open(t.Context(), info.ID, memory.SessionAuthor("mine"))
	r.must(err)
	ctx, stop := context.WithCancel(t.Context())
	r.fs = newFileSystem(ctx, []*memory.Store{mine}, Options{Logger: slog.New(slog.DiscardHandler), Session: "mine"})
	fs := r.fs
	fs.notify.Close() // so that no goroutine waits for a kernel
	r.s, r.stop = fs.stores[0], stop
	r.s.patience = time.Microsecond // nothing follows next to it, unless the test has a follower
	r.must(r.s.begin(ctx))
	r.log.ResetReads()
	r.Cleanup(func() {
		stop()
		fs.awaitTasks()
	})
	return r
}

// keep keeps what loses a race in a directory.
func (r *rig) keep() {
	r.keepIn(conflict.New(r.TempDir()))
	r.Cleanup(func() { // before the directory is removed
		r.stop()
		r.awaitTasks()
	})
}

// keepIn is keep for a place that outlives the mount.
func (r *rig) keepIn(kept *conflict.Store) {
	r.s.kept = kept
	r.renew()
}

// flatten makes the store the whole mount, before anything has happened.
func (r *rig) flatten() {
	r.options().Flat = true
	r.fs.flatten()
}

// configure changes the mount's options before anything has happened.
func (r *rig) configure(change func(*Options)) {
	change(r.options())
	r.renew()
}

// renew makes the session again.
func (r *rig) renew() { r.s.newSession() }

// movedUnread is what the session has moved away unread, by the paths where it was.
func (r *rig) movedUnread() map[string]*session.MovedState {
	all := map[string]*session.MovedState{}
	for path := range r.s.known.AllMoved() {
		all[path] = r.s.known.MovedState(path)
	}
	return all
}

// isUnderWay reports whether the mount is making a commit.
func (r *rig) isUnderWay(c *versionlog.Commit) bool {
	ended, end := context.WithCancel(r.Context())
	end()
	return !r.s.session.AwaitOwn(ended, c.Key)
}

// follow brings what is in the log into the tree, as the follower does.
func (r *rig) follow() {
	r.Helper()
	r.followWhile(func(*versionlog.Commit) bool { return true })
}

// followWhile is follow up to the first commit that is not to be met.
func (r *rig) followWhile(more func(*versionlog.Commit) bool) {
	r.Helper()
	done := r.looking()
	applied := r.s.tree.AppliedLocked()
	done()
	for c, err := range r.other.Commits(r.Context(), applied) {
		r.must(err)
		if !more(c) {
			return
		}
		r.s.followOne(r.Context(), c)
	}
}

// walkTo lets the walk hand out n pages before it calls then, with the next
// one read, and ends it.
func (r *rig) walkTo(n int, then func()) {
	r.Helper()
	pages := 0
	r.log.Each(logfault.AfterPage, func() {
		if pages == n {
			r.log.Each(logfault.AfterPage, nil)
			then()
		}
		pages++
	})
	r.walk()
}

// followBeside follows the log as long as the mount lives.
func (r *rig) followBeside() { r.inBackground((*store).follow) }

// awaitShown waits until the mount, which follows the log, shows a commit.
func (r *rig) awaitShown(seq uint64) {
	r.Helper()
	r.must(r.s.tree.AwaitApplied(r.Context(), seq))
}

// looking takes the lock of the file system inside, to look at it; locked takes it to change it.
// Each returns a function that gives it back.
func (r *rig) looking() (done func()) {
	r.fs.mu.RLock()
	return r.fs.mu.RUnlock
}

func (r *rig) locked() (done func()) {
	r.fs.mu.Lock()
	return r.fs.mu.Unlock
}

// options are the mount's.
func (r *rig) options() *Options { return &r.fs.opts }

// front is what answers the kernel.
func (r *rig) front() *front { return newFront(r.fs) }

// virtuals is what the kernel has of the files below .mneme.
func (r *rig) virtuals() *virtuals { return &r.fs.virtual }

// node is the one of an id. A scratch file that lingers may become a memory beside.
func (r *rig) node(id uint64) *tree.Entry {
	defer r.looking()()
	return r.fs.nodes[id]
}

// wantAsLog compares the tree with the log once everything has loaded.
func (r *rig) wantAsLog() {
	r.Helper()
	r.follow()
	if wrong := r.differsInFiles(); wrong != "" {
		r.Error(wrong)
	}
}

// differsInFiles says how the files of the tree differ from what the log has, once
// everything has loaded, or "". An empty directory counts as one.
func (r *rig) differsInFiles() string {
	heads := map[string]string{}
	for v, err := range r.other.Heads(r.Context(), "/") {
		r.must(err)
		heads[v.Path] = fmt.Sprint(v.ID, " ", v.Size)
	}
	defer r.looking()()
	if !r.s.tree.IsLoadedLocked() {
		return "the heads have not loaded"
	}
	if diff := cmp.Diff(heads, filesOf(r.s.tree.Root(), "")); diff != "" {
		return "the tree differs from the log (-log +tree):\n" + diff
	}
	return ""
}

// nextNumber is that of the inode that is made next.
func nextNumber(fs *fileSystem) uint64 { return fs.ids.Peek() }

// handle is the one of a number.
func (r *rig) handle(fh uint64) *handle {
	defer r.looking()()
	return r.fs.handles[fh]
}

// hiddenInFiles says which files hide something, as only directories may, or "".
func (r *rig) hiddenInFiles() (wrong string) {
	defer r.looking()()
	var walk func(n *tree.Entry, path string)
	walk = func(n *tree.Entry, path string) {
		if !n.IsDir() && n.HidesLocked() {
			wrong = path + " is a file, and hides something"
		}
		for name := range n.HiddenDirsLocked() {
			if c := n.ChildLocked(name); c != nil && !c.IsDir() {
				wrong = path + "/" + name + " is a file, where a directory hides something"
			}
		}
		for name, c := range n.ChildrenLocked() {
			walk(c, path+"/"+name)
		}
	}
	walk(r.s.tree.Root(), "")
	return wrong
}

// awaitTasks waits for the work that the mount has begun in the background.
func (r *rig) awaitTasks() { r.fs.awaitTasks() }

// startMove makes a rename look at the tree, as it does before it lets go of the lock.
func (r *rig) startMove(path, to string) *move {
	r.Helper()
	dir, name := r.parent(path)
	toDir, newName := r.parent(to)
	defer r.locked()()
	m, status := r.fs.newMoveLocked(&fuse.RenameIn{InHeader: header(dir), Newdir: toDir}, r.fs.nodes[dir], name, newName)
	if !status.Ok() {
		r.Fatal(status)
	}
	return m
}

// loseFromTree makes the tree lack a file that the log has, which is a mistake.
func (r *rig) loseFromTree(path string) {
	defer r.locked()()
	r.fs.unlinkedLocked(r.s.tree.FindLocked(path))
}

// unsettled returns how many drafts and how many commits of names may be in the log, though
// they ended with an error.
func (r *rig) unsettled() (drafts, names int) {
	return r.s.session.Doubts()
}

// known makes the kernel one that has looked a directory up, and returns its number.
func (r *rig) known(path string) uint64 {
	defer r.locked()()
	n := r.s.tree.FindLocked(path)
	if path == "/" {
		n = r.s.tree.Root()
	}
	cacheOf(n).Lookups++
	return n.ID()
}

// inUse returns how many inodes and handles there are.
func (r *rig) inUse() (inodes, handles int) {
	fs := r.fs
	defer r.looking()()
	return len(fs.nodes), len(fs.handles)
}

// handles are those that are open.
func (r *rig) handles() map[uint64]*handle { return r.fs.handles }

// staged returns how long the text is that is being written through a handle.
func (r *rig) staged(fh uint64) int {
	h := r.handle(fh)
	defer r.looking()()
	return len(h.stage.data)
}

// class is what a file is by its name. Callers hold the lock.
func (r *rig) class(n *tree.Entry) scratchKind { return r.fs.classOfLocked(n) }

func (r *rig) budget() *budget     { return &r.fs.budget }
func (r *rig) handing() *handing   { return r.fs.handing }
func (r *rig) noteAnswer()         { r.fs.noteAnswer() }
func (r *rig) patience() *patience { return &r.fs.patience }

// inBackground does what the mount does beside requests, until the mount ends.
func (r *rig) inBackground(do func(*store, context.Context)) {
	fs := r.fs
	fs.tasks.Go(func() { do(r.s, fs.ctx) })
}

// commitAppended commits what was appended long before a time.
func (r *rig) commitAppended(at time.Time) (waiting bool) { return r.fs.commitAppended(at) }

// followAppends has that done as time goes by.
func (r *rig) followAppends() {
	fs := r.fs
	fs.tasks.Go(fs.followAppends)
}

// leaves returns up to where the close of a handle by a thread would commit.
func (r *rig) leaves(fh uint64, thread uint32) (upTo *mark) {
	_, upTo = r.fs.committedByAnotherClose(r.handle(fh), thread)
	return upTo
}

// commitUpTo commits what was written to a handle's file up to a moment.
func (r *rig) commitUpTo(fh uint64, upTo *mark) fuse.Status {
	h := r.handle(fh)
	return r.fs.commitUpTo(h.node, h.stage, saved, upTo)
}

// linger makes a memory of a temporary file, as when it is left alone for long.
func (r *rig) linger(path string) error {
	r.Helper()
	n := r.node(r.wantLookup(path, fuse.OK).NodeId)
	if status := r.fs.commitFile(n, stageOf(n), lingered); !status.Ok() {
		return fmt.Errorf("%s is not saved: %v", path, status)
	}
	return nil
}

// claims are those of the session.
func (r *rig) claims() *session.Claims { return r.s.session.Claims() }

// commitFails fails to commit what was written through a handle, and reports whether that is
// given up.
func (r *rig) commitFails(fh uint64, err error) (givenUp bool) {
	h := r.handle(fh)
	st := h.stage
	text := &stagedText{n: h.node, st: st}
	_ = text.Beside(&session.Draft{Path: text.Path()}, func() error { return err })
	defer r.looking()()
	return st.err != 0
}

// takeNotices makes the kernel one that takes every notice in at once.
func (r *rig) takeNotices() { r.fs.withKernel(r.T) }

// commitAll commits what is written as the mount does that ends.
func (r *rig) commitAll() { r.fs.commitAll() }

// differs says how the tree differs from the log, of which all has been followed, or "". A hidden
// file counts where the log has it; scratch files do not.
func (r *rig) differs() (wrong string) {
	heads := map[string]string{}
	for v, err := range r.other.Heads(r.Context(), "/") {
		r.must(err)
		heads[v.Path] = v.ID
	}
	shown := map[string]string{}
	var walk func(n *tree.Entry, path string)
	walk = func(n *tree.Entry, path string) {
		for name, d := range n.HiddenDirsLocked() {
			if walk(d, path+"/"+name); d.ParentLocked() != n || d.NameLocked() != name || !d.HidesLocked() {
				wrong = fmt.Sprintf("%s/%s is hidden, and hides nothing", path, name)
			}
		}
		for name, c := range n.HiddenLocked() {
			if !c.IsHiddenLocked() || c.ParentLocked() == nil {
				wrong = fmt.Sprintf("what is hidden at %s/%s has no other name", path, name)
			}
			shown[path+"/"+name] = c.HeadLocked().ID()
		}
		for name, c := range n.ChildrenLocked() {
			switch {
			case r.fs.nodes[c.ID()] != c:
				wrong = fmt.Sprintf("%s/%s cannot be opened", path, name)
			case c.IsDir():
				walk(c, path+"/"+name)
			case !c.IsUnloggedLocked():
				shown[path+"/"+name] = c.HeadLocked().ID()
			}
		}
	}
	defer r.looking()()
	walk(r.s.tree.Root(), "")
	if fmt.Sprint(heads) != fmt.Sprint(shown) {
		return fmt.Sprintf("the log has  %v\nthe tree has %v", heads, shown)
	}
	return wrong + r.dirsDiffer()
}

// dirsDiffer says how the directories that the log has itself differ from those of the
// tree that are marked so, or "". Caller holds fs.mu.
func (r *rig) dirsDiffer() string {
	var log, shown []string
	for v, err := range r.other.Tree(r.Context(), "/") {
		r.must(err)
		if v.IsDir() {
			log = append(log, v.Path)
		}
	}
	var walk func(n *tree.Entry, path string)
	walk = func(n *tree.Entry, path string) {
		if n.MarkerLocked() != 0 {
			shown = append(shown, path+"/")
		}
		for name, c := range n.ChildrenLocked() {
			if c.IsDir() {
				walk(c, path+"/"+name)
			}
		}
		for name, d := range n.HiddenDirsLocked() {
			walk(d, path+"/"+name)
		}
	}
	walk(r.s.tree.Root(), "")
	slices.Sort(shown)
	if slices.Sort(log); !slices.Equal(log, shown) {
		return fmt.Sprintf("the log has the directories %q, the tree %q", log, shown)
	}
	return ""
}

// filesOf lists the files below dir; an empty directory is listed too.
func filesOf(dir *tree.Entry, path string) map[string]string {
	files := map[string]string{}
	for name, n := range dir.ChildrenLocked() {
		at := path + "/" + name
		switch {
		case !n.IsDir() && n.HeadLocked() == nil:
			files[at] = fmt.Sprint("not committed ", sizeLocked(n))
			continue
		case !n.IsDir():
			files[at] = fmt.Sprint(n.HeadLocked().ID(), " ", sizeLocked(n))
			continue
		}
		below := filesOf(n, at)
		if len(below) == 0 {
			files[at+"/"] = "empty"
		}
		for p, v := range below {
			files[p] = v
		}
	}
	return files
}

// missed makes the mount look for versions that were erased before it began, and reports whether
// it drops the data that it has read.
func (r *rig) missed() (letsGo bool) {
	r.s.missed(r.Context())
	return r.fs.returning.follower.IsRecent()
}

// keepTaken keeps what was being written when the mount was taken over, first or, without any,
// again. It returns how much could not be kept.
func (r *rig) keepTaken(left ...*takenText) int {
	fs := r.fs
	if len(left) > 0 {
		fs.keepAll(left)
		fs.awaitKept()
	} else {
		fs.keepAgain()
	}
	defer r.locked()()
	return len(fs.toKeep)
}

// errorsSay returns what .mneme/errors says.
func (r *rig) errorsSay() string { return string(r.s.errors.Lines()) }
