package tree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// TestTreeFollowsTheLog has the mount's session and another change a store at random while it loads,
// with requests that ask and files that a program makes and renames, and compares the tree with the
// log at the end.
func TestTreeFollowsTheLog(t *testing.T) {
	for seed := range uint64(1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 20))
			w := newWorld(t)
			uses := map[*Entry]bool{}
			w.told.used = func(n *Entry) bool {
				if _, known := uses[n]; !known {
					uses[n] = r.IntN(2) == 0
				}
				return uses[n]
			}
			path := func() string {
				names := []string{"/a", "/b", "/caf\u00e9"}
				p := names[r.IntN(3)]
				for r.IntN(2) == 0 && len(p) < 12 {
					p += names[r.IntN(3)]
				}
				if r.IntN(8) == 0 { // which this mount may have given a memory
					p += "~"
				}
				return p
			}
			theirs := func() {
				_, _ = change(t.Context(), w.other, r, path)
				if r.IntN(8) == 0 {
					w.redact(r)
				}
			}
			for range 10 {
				theirs()
			}
			tip, err := w.other.Tip(t.Context())
			w.must(err)
			w.BeginAt(tip)
			meanwhile := func() { // something was read, and is not in the tree yet
				for range r.IntN(3) {
					theirs()
					w.follow(r.IntN(3))
				}
			}
			w.log.Each(logfault.AfterPage, meanwhile)
			w.log.Each(logfault.AfterHead, meanwhile)
			loaded := r.IntN(40)
			for step := range 60 {
				if step == loaded {
					w.must(w.Walk(t.Context()))
					w.check("loaded")
				}
				switch r.IntN(14) {
				case 0, 1:
					theirs()
				case 2:
					w.follow(1 + r.IntN(3))
				case 3:
					dir, name := Split(path())
					w.mu.RLock()
					d := w.FindDirLocked(dir)
					w.mu.RUnlock()
					if d != nil {
						w.must(w.Ensure(t.Context(), d, name))
						w.check("asked for " + name)
						w.wantRight(d, name)
					}
				case 4, 6, 7:
					w.locked(func() { w.renameLocked(r, path) })
					w.check("renamed here")
				case 5:
					if len(w.tasks) > 0 {
						task := w.tasks[0]
						w.tasks = w.tasks[1:]
						task()
						w.check("found out")
					}
				default:
					w.commit(r, path, theirs)
					w.check("committed here")
				}
			}
			w.end()
			for n := range uses {
				w.wantSuccessor(n)
			}
		})
	}
}

// redact erases of the newest versions those that can be, which may not have been followed yet.
func (w *world) redact(r *rand.Rand) {
	w.Helper()
	tip, err := w.other.Tip(w.Context())
	w.must(err)
	info := w.other.Info()
	for c, err := range w.other.Commits(w.Context(), tip.Seq-min(tip.Seq, r.Uint64N(6))) {
		w.must(err)
		for _, v := range c.Versions {
			_, err := w.log.Log.Commit(w.Context(), info.ID, &versionlog.Proposal{
				Key: versionlog.NewKey(), Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}, Message: "a test", Epoch: info.Epoch, Event: versionlog.StoreRedacted(v.ID),
			})
			if err != nil && !errors.Is(err, versionlog.ErrLiveHead) {
				w.Fatal(err)
			}
		}
	}
}

// change makes a session change a store at random.
func change(ctx context.Context, s *memory.Store, r *rand.Rand, path func() string) (c *versionlog.Commit, err error) {
	switch r.IntN(8) {
	case 0, 1, 2:
		_, err = s.Write(ctx, path(), []byte(fmt.Sprint(r.IntN(5))), versionlog.ExpectAny())
	case 3:
		_, err = s.Remove(ctx, path(), versionlog.ExpectAny())
	case 4, 5:
		c, err = s.Rename(ctx, path(), path(), nil)
	case 6:
		c, err = s.Batch(ctx, []memory.Change{{Action: versionlog.MakeDir, Path: path() + "/", Expect: versionlog.ExpectAbsent()}}, nil)
	case 7:
		c, err = s.Batch(ctx, []memory.Change{{Action: versionlog.Remove, Path: path() + "/", Expect: versionlog.ExpectExists()}}, nil)
	}
	return c, err
}

// renameLocked is one change of names by this mount of which the log does not hear.
func (w *world) renameLocked(r *rand.Rand, path func() string) {
	dir, name := Split(path())
	d := w.FindDirLocked(dir)
	if d == nil {
		return
	}
	n, scratch := d.children[name], d.children[name+"~"]
	switch {
	case n != nil && n.IsDir() && len(n.children) == 0 && n.HidesLocked():
		w.RemovedDirLocked(d, n, name, name)
	case n.IsMemoryLocked() && scratch == nil:
		w.HideLocked(moveOf(d, n, name+"~"))
	case n == nil && scratch != nil && scratch.IsHiddenFromLocked(d, name):
		w.RevealLocked(moveOf(d, scratch, name))
	case n == nil && scratch == nil && !d.LoadingLocked():
		w.MakeFileLocked(d, name+"~", 0o600, time.Now())
	case scratch != nil && scratch.IsMountOnlyLocked() && r.IntN(2) == 0:
		w.RemovedLocked(scratch)
	}
}

// commit makes a commit of the mount: between its making and its coming into the tree another session may
// commit, which is followed or not.
func (w *world) commit(r *rand.Rand, path func() string, theirs func()) {
	p, q := path(), path()
	if there := w.paths(); len(there) > 0 && r.IntN(3) > 0 {
		p = there[r.IntN(len(there))]
	}
	dir, name := Split(p)
	toDir, newName := Split(q)
	d, to := w.dir(dir), w.dir(toDir)
	if d == nil || to == nil || strings.HasSuffix(p+q, "~") {
		return
	}
	w.must(w.Ensure(w.Context(), d, name))
	w.must(w.Ensure(w.Context(), to, newName))
	if below := w.dir(p); below != nil {
		w.must(w.EnsureAll(w.Context(), below))
	}
	if w.dir(dir) != d || w.dir(toDir) != to { // taken away meanwhile
		return
	}
	n, target := d.children[name], to.children[newName]
	if d.hidden[name] != nil || to.hidden[newName] != nil || d.hiddenDirs[name] != nil || to.hiddenDirs[newName] != nil {
		return
	}
	var m *Move
	if n != nil {
		m = moveOf(to, n, newName)
	}
	ctx := w.Context()
	batch := func(changes ...memory.Change) (*versionlog.Commit, error) { return w.mine.Batch(ctx, changes, nil) }
	bring := func(c *versionlog.Commit, err error, do func(c *versionlog.Commit)) {
		var lost *versionlog.ConflictError
		if errors.As(err, &lost) {
			w.locked(func() {
				for _, c := range lost.Conflicts {
					if c.Head != nil {
						w.ShowLocked(*c.Head)
					}
				}
			})
		}
		if err != nil || len(c.Versions) == 0 {
			return
		}
		w.made[c.Seq], w.under = true, c.Seq
		if r.IntN(3) == 0 { // the follower has come up to it, and waits
			theirs()
			w.follow(1 << 20)
		}
		if r.IntN(3) == 0 { // what loads has it already
			w.must(w.EnsureAll(w.Context(), w.root))
		}
		w.locked(func() {
			w.NoteFreedLocked(c)
			do(c)
			w.FreedLocked(c)
		})
		w.under = 0
	}
	put := func(path string, expect versionlog.Expectation) memory.Change {
		return memory.Change{Action: versionlog.Put, Path: path, Content: fmt.Append(nil, "mine ", r.Uint64()), Expect: expect}
	}
	committed := func(n *Entry) func(c *versionlog.Commit) {
		return func(c *versionlog.Commit) {
			v := &c.Versions[0]
			if at, ok := n.PathLocked(); !ok || at != v.Path {
				if there := w.CommittedElsewhereLocked(n, v, memory.NewHead(v)); there != nil && n.LatestLocked() != there {
					w.Errorf("what was written to %s stands for nothing", at)
				}
			} else {
				w.CommittedLocked(n, v, memory.NewHead(v))
			}
		}
	}
	switch r.IntN(6) {
	case 0: // write
		if n.IsMemoryLocked() {
			c, err := batch(put(p, versionlog.ExpectVersion(n.head.ID())))
			bring(c, err, committed(n))
		}
	case 1: // make
		if n == nil {
			w.locked(func() { n = w.MakeFileLocked(d, name, 0o600, time.Now()) })
			c, err := batch(put(p, versionlog.ExpectAbsent()))
			if bring(c, err, committed(n)); err != nil { // given up
				w.locked(func() {
					if n.unlogged && n.parent != nil {
						w.RemovedLocked(n)
					}
				})
			}
		}
	case 2: // remove
		if n.IsMemoryLocked() {
			c, err := batch(memory.Change{Action: versionlog.Remove, Path: p, Expect: versionlog.ExpectVersion(n.head.ID())})
			bring(c, err, func(*versionlog.Commit) {
				if at, ok := n.LatestLocked().PathLocked(); ok && at == p {
					w.RemovedLocked(n.LatestLocked())
				}
			})
		}
	case 3: // rename a file, over another or not
		switch {
		case !n.IsMemoryLocked() || n == target || strings.HasPrefix(q, p+"/"):
		case target == nil:
			c, err := batch(memory.Change{Action: versionlog.Rename, Path: p, To: q, Expect: versionlog.ExpectExists()})
			bring(c, err, func(c *versionlog.Commit) { w.MovedLocked(m, p, c.Versions[0]) })
		case target.IsMemoryLocked():
			c, err := batch(put(q, versionlog.ExpectVersion(target.head.ID())), memory.Change{Action: versionlog.Remove, Path: p, Expect: versionlog.ExpectVersion(n.head.ID())})
			bring(c, err, func(c *versionlog.Commit) {
				m.ResolveLocked()
				i := slices.IndexFunc(c.Versions, func(v versionlog.Version) bool { return v.Path == q })
				var newer *versionlog.Version
				if other := m.To.children[newName]; other.IsMemorySinceLocked(c.Seq + 1) {
					v := other.VersionLocked()
					newer = &v
				}
				if w.ReplacedLocked(m, &c.Versions[i]); newer != nil {
					w.InstallLocked(*newer)
				}
			})
		}
	case 4: // rename a directory
		if n == nil || !n.IsDir() || target != nil || p == q || strings.HasPrefix(q, p+"/") || !n.HoldsMemoriesLocked() && !n.HasMarkersLocked() {
			return
		}
		c, err := w.mine.Rename(ctx, p, q, nil)
		bring(c, err, func(c *versionlog.Commit) {
			m.ResolveLocked()
			w.MovedDirLocked(m, c)
		})
	case 5: // make a directory
		if n == nil {
			c, err := batch(memory.Change{Action: versionlog.MakeDir, Path: p + "/", Expect: versionlog.ExpectAbsent()})
			bring(c, err, func(c *versionlog.Commit) { w.MadeDirLocked(d, name, p, 0o700, &c.Versions[0]) })
		}
	}
}
