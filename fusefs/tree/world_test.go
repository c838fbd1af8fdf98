package tree

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// teller is an Invalidator. The entries for which used reports true are in use.
type teller struct{ used func(n *Entry) bool }

func (i *teller) NameLocked(dir *Entry, name string, n *Entry) {
	if n != nil && dir.children[name] != n {
		panic("told before the change: " + name)
	}
}
func (i *teller) ListingLocked(*Entry)    {}
func (i *teller) AttributesLocked(*Entry) {}
func (i *teller) ContentLocked(*Entry)    {}
func (i *teller) SupersedingLocked(n *Entry, _ *memory.Head) (used bool, length int64) {
	return i.used(n), -1
}
func (i *teller) RenamedLocked(*Entry, string) {}
func (i *teller) PlacedLocked(*Entry)          {}
func (i *teller) ChangedLocked(*Entry)         {}

// mine is a session.
type mine struct{}

func (mine) Made(v *versionlog.Version) bool { return v.Session == "mine" }
func (mine) Came(string)                     {}
func (mine) Went(string)                     {}
func (mine) Followed(string, string, bool)   {}
func (mine) Moved(string, string)            {}
func (mine) Seen(string, int64)              {}

// world is a tree, and two sessions that write to its store: the mount's, and another.
type world struct {
	*testing.T
	*Tree
	mu          sync.RWMutex
	told        *teller
	mine, other *memory.Store
	made        map[uint64]bool   // commits of the mount's that are in the tree
	newest      map[string]uint64 // what was seen at each path
	under       uint64            // a commit of the mount's that is not in the tree yet: a follower waits; 0: none
	log         *logfault.Log
	tasks       []func() // that the tree has begun
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, log: logfault.New(memlog.New(nil), &logfault.Options{PageSize: 2}), told: &teller{used: func(*Entry) bool { return false }}, made: map[uint64]bool{}, newest: map[string]uint64{}}
	blobs := memcas.New()
	content := func(string) (cas.Store, error) { return blobs, nil }
	direct, slow := memory.NewLibrary(w.log.Log, content), memory.NewLibrary(w.log, content)
	info, err := slow.CreateStore(t.Context(), "notes", nil)
	w.must(err)
	open := func(lib *memory.Library, name string) *memory.Store {
		s, err := lib.Open(t.Context(), info.ID, memory.SessionAuthor(name))
		w.must(err)
		return s
	}
	w.other, w.mine = open(direct, "other"), open(direct, "mine")
	w.Tree = New(t.Context(), &w.mu, open(slow, "mine"), testOptions(w.told, func(task func()) { w.tasks = append(w.tasks, task) }))
	tip, err := w.other.Tip(t.Context())
	w.must(err)
	w.BeginAt(tip)
	return w
}

// testOptions are those of a tree that tells an Invalidator of changes.
func testOptions(told *teller, begin func(task func())) *Options {
	return &Options{
		IDs: &IDs{}, Session: mine{}, Told: told, Logger: slog.New(slog.DiscardHandler), Since: time.Now(), RootMode: syscall.S_IFDIR | 0o700,
		FileMode: func(*versionlog.Version) uint32 { return syscall.S_IFREG | 0o600 },
		DirMode:  func(string) uint32 { return syscall.S_IFDIR | 0o700 },
		Begin:    begin,
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// locked does something under the lock.
func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// follow brings n commits into the tree: those of the mount are there already.
func (w *world) follow(n int) {
	for c, err := range w.other.Commits(w.Context(), w.Shown().Seq) {
		w.must(err)
		if n--; n < 0 || c.Seq == w.under {
			return
		}
		w.locked(func() {
			if !w.made[c.Seq] {
				w.ApplyLocked(c)
			}
			w.ShownLocked(c)
		})
		w.check(fmt.Sprint("after commit ", c.Seq))
	}
}

func (w *world) check(when string) {
	w.Helper()
	w.locked(func() {
		if wrong := w.checkLocked(); wrong != "" {
			w.Fatalf("%s:\n%s", when, wrong)
		}
		w.checkNewestLocked(when, w.root)
	})
}

// end has the tree learn all that the log has, and compares the two.
func (w *world) end() {
	w.Helper()
	w.log.Forget()
	w.must(w.Walk(w.Context()))
	w.follow(1 << 20)
	for _, task := range w.tasks {
		task()
	}
	w.check("at the end")
	w.wantAsLog()
}

// checkNewestLocked fails where an older version has replaced a newer one (T1).
func (w *world) checkNewestLocked(when string, dir *Entry) {
	w.Helper()
	for _, n := range dir.children {
		if path, _ := n.PathLocked(); n.IsMemoryLocked() {
			if n.head.Seq() < w.newest[path] {
				w.Fatalf("%s: %s is version %d, and was %d", when, path, n.head.Seq(), w.newest[path])
			}
			w.newest[path] = n.head.Seq()
		}
		w.checkNewestLocked(when, n)
	}
}

// wantAsLog compares the tree with the log, of which all has been followed.
func (w *world) wantAsLog() {
	w.Helper()
	var want, got []string
	for v, err := range w.other.Tree(w.Context(), "/") {
		w.must(err)
		if v.IsDir() {
			want = append(want, v.Path)
		} else {
			want = append(want, v.Path+" "+v.ID)
		}
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	var walkLocked func(n *Entry)
	walkLocked = func(n *Entry) {
		if path, _ := n.PathLocked(); n.marker != 0 {
			got = append(got, path+"/")
		}
		for _, c := range n.children {
			if path, _ := c.LogPathLocked(); c.InLogLocked() {
				got = append(got, path+" "+c.head.ID())
			}
			walkLocked(c)
		}
		for _, d := range n.hiddenDirs {
			walkLocked(d)
		}
	}
	walkLocked(w.root)
	for path := range w.emptied { // to be taken out of the log
		got = append(got, path+"/")
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		w.Fatalf("the tree has\n%s\nthe log\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantRight compares what the tree says of a name that was asked for with the log, when all of that
// has been followed: that there is nothing is said only where nothing is (T2).
func (w *world) wantRight(dir *Entry, name string) {
	w.Helper()
	tip, err := w.other.Tip(w.Context())
	w.must(err)
	w.mu.RLock()
	defer w.mu.RUnlock()
	path, ok := dir.PathLocked()
	if path += "/" + name; !ok || tip.Seq != w.applied || dir.children[name] != nil || dir.hidden[name] != nil || dir.hiddenDirs[name] != nil || !w.RightAboutLocked(dir, path) {
		return
	}
	for v, err := range w.other.Heads(w.Context(), path+"/") {
		w.must(err)
		if w.FindHiddenLocked(v.Path) == nil {
			w.Errorf("the tree says that there is no %s, and the log has %s", path, v.Path)
		}
	}
	if v, err := w.other.Head(w.Context(), path); err == nil {
		w.Errorf("the tree says that there is no %s, and the log has version %d", path, v.Seq)
	}
}

// wantSuccessor checks what stands for an entry whose place was taken.
func (w *world) wantSuccessor(n *Entry) {
	w.Helper()
	w.mu.RLock()
	defer w.mu.RUnlock()
	if latest := n.LatestLocked(); latest != n && (n.parent != nil || latest.IsSupersededLocked()) {
		w.Errorf("%s stands for %s, which is still there", latest.name, n.name)
	} else if latest == n && n.parent == nil && n.lastPath == "" && !n.removed {
		w.Errorf("%s is gone, and was nowhere", n.name)
	}
}

// dir returns the directory at a path; nil: there is none.
func (w *world) dir(path string) *Entry {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.FindDirLocked(path)
}

// paths returns those of all that is in the tree, in order.
func (w *world) paths() (paths []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var walkLocked func(n *Entry)
	walkLocked = func(n *Entry) {
		for _, c := range n.children {
			path, _ := c.PathLocked()
			paths = append(paths, path)
			walkLocked(c)
		}
	}
	walkLocked(w.root)
	slices.Sort(paths)
	return paths
}

// moveOf is a rename to another name in a directory.
func moveOf(to, n *Entry, name string) *Move {
	from, _ := n.PathLocked()
	path, _ := to.PathLocked()
	return &Move{Entry: n, From: n.parent, To: to, FromPath: from, ToPath: path, Old: n.name, New: name, As: name, Target: to.children[name]}
}
