package tree

import (
	"errors"
	"testing"
	"time"

	"mneme/memory"
	"mneme/versionlog"
)

// TestRareMeetings holds the tree to its invariants where changes at random hardly ever meet.
func TestRareMeetings(t *testing.T) {
	for name, meet := range map[string]func(w *world){
		"a directory that this mount has emptied and filled goes with its last memory": func(w *world) {
			w.have("/d/a")
			w.removeHere("/d/a")
			w.bringPut("/d/b")
			w.theirs(versionlog.Remove, "/d/b")
			w.follow(3)
			if w.dir("/d") != nil {
				w.Error("/d is still there")
			}
		},
		"what was made here keeps its place when the walk comes by before the request": func(w *world) {
			w.told.used = func(*Entry) bool { return true }
			n := w.makeHere("/a")
			c := w.batch(memory.Change{Action: versionlog.Put, Path: "/a", Content: []byte("mine"), Expect: versionlog.ExpectAbsent()})
			w.must(w.EnsureAll(w.Context(), w.root))
			if n.parent == nil || w.root.children["a"] != n {
				w.Error("/a is another file than the one that was made")
			}
			w.bring(c, func() { w.CommittedLocked(n, &c.Versions[0], memory.NewHead(&c.Versions[0])) })
		},
		"a file keeps its entry when the walk finds it where it was": func(w *world) {
			w.told.used = func(*Entry) bool { return true }
			w.must(w.write("/a", "a"))
			w.begin()
			w.must(w.Ensure(w.Context(), w.root, "a"))
			n := w.root.children["a"]
			w.must(w.Walk(w.Context()))
			if w.root.children["a"] != n {
				w.Error("/a is another entry than before")
			}
		},
		"a directory that takes the place of another one is in the log as that was": func(w *world) {
			w.theirs(versionlog.MakeDir, "/d")
			w.have("/e/a")
			m := w.move("/e", "/d")
			c, err := w.mine.Rename(w.Context(), "/e", "/d", nil)
			w.must(err)
			w.bring(c, func() { w.MovedDirLocked(m, c) })
			w.theirs(versionlog.Remove, "/d/a")
		},
		"a directory of which little is known stays until all is": func(w *world) {
			w.must(errors.Join(w.write("/d/a", "a"), w.write("/d/b", "b")))
			w.begin()
			w.must(w.Ensure(w.Context(), w.root, "d"))
			w.must(w.Ensure(w.Context(), w.dir("/d"), "a"))
			w.theirs(versionlog.Remove, "/d/a")
			w.follow(1)
			if w.dir("/d") == nil || len(w.tasks) != 1 {
				w.Fatal("/d has gone, or nobody finds out about it")
			}
		},
		"what a hidden directory hides ends when a file gets its name": func(w *world) {
			w.have("/d/a")
			h := w.hideHere("/d/a", "/a~")
			w.removeDirHere("/d")
			c, err := w.other.Batch(w.Context(), []memory.Change{
				{Action: versionlog.Remove, Path: "/d/a", Expect: versionlog.ExpectAny()},
				{Action: versionlog.Put, Path: "/d", Content: []byte("x"), Expect: versionlog.ExpectAny()},
			}, nil)
			w.must(err)
			w.locked(func() { w.ShowLocked(c.Versions[len(c.Versions)-1]) }) // a conflict has told of it
			if h.IsHiddenLocked() || len(w.root.hiddenDirs) > 0 {
				w.Error("/d/a is still hidden")
			}
		},
		"a hidden directory ends with the last that it hides": func(w *world) {
			w.have("/d/a")
			w.hideHere("/d/a", "/a~")
			w.removeDirHere("/d")
			w.theirs(versionlog.Remove, "/d/a")
			w.follow(1)
			if len(w.root.hiddenDirs) > 0 {
				w.Error("/d is still hidden")
			}
		},
		"what was hidden in a directory and has gone is hidden no more when that moves": func(w *world) {
			w.have("/d/a", "/d/b")
			h := w.hideHere("/d/a", "/d/a~")
			w.theirs(versionlog.Remove, "/d/a")
			m := w.move("/d", "/e")
			c, err := w.mine.Rename(w.Context(), "/d", "/e", nil)
			w.must(err)
			w.bring(c, func() { w.MovedDirLocked(m, c) })
			if h.IsHiddenLocked() {
				w.Error("/d/a is still hidden")
			}
		},
		"a rename moves what is at its source by then": func(w *world) {
			w.told.used = func(*Entry) bool { return true }
			w.have("/a")
			m := w.move("/a", "/b")
			c, err := w.other.Rename(w.Context(), "/a", "/c", nil)
			w.must(errors.Join(err, w.write("/a", "new")))
			w.follow(len(c.Versions) + 1)
			c = w.batch(memory.Change{Action: versionlog.Rename, Path: "/a", To: "/b", Expect: versionlog.ExpectExists()})
			w.bring(c, func() { w.MovedLocked(m, "/a", c.Versions[0]) })
		},
		"a directory that another session has made stays when the one above it moves": func(w *world) {
			w.must(w.write("/d/a", "a"))
			w.begin()
			w.must(w.EnsureAll(w.Context(), w.root))
			w.must(w.EnsureAll(w.Context(), w.dir("/d")))
			m := w.move("/d", "/x")
			c, err := w.mine.Rename(w.Context(), "/d", "/x", nil)
			w.must(err)
			w.theirs(versionlog.MakeDir, "/d/e")
			w.must(w.Walk(w.Context()))
			w.bring(c, func() { w.MovedDirLocked(m, c) })
			if w.dir("/d/e") == nil {
				w.Error("/d/e is not there")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			meet(w)
			w.check("when they have met")
			w.end()
		})
	}
}

// begin has the tree begin as the log is now.
func (w *world) begin() {
	tip, err := w.other.Tip(w.Context())
	w.must(err)
	w.BeginAt(tip)
}

// have fills the store, and the tree with it.
func (w *world) have(paths ...string) {
	w.Helper()
	for _, path := range paths {
		w.must(w.write(path, path))
	}
	w.begin()
	w.must(w.Walk(w.Context()))
}

// theirs is one change by the other session.
func (w *world) theirs(action versionlog.Action, path string) {
	w.Helper()
	expect := versionlog.ExpectExists()
	if action == versionlog.MakeDir {
		path, expect = path+"/", versionlog.ExpectAbsent()
	}
	_, err := w.other.Batch(w.Context(), []memory.Change{{Action: action, Path: path, Expect: expect}}, nil)
	w.must(err)
}

// batch makes a commit of the mount's, which is not in the tree yet.
func (w *world) batch(changes ...memory.Change) *versionlog.Commit {
	w.Helper()
	c, err := w.mine.Batch(w.Context(), changes, nil)
	w.must(err)
	return c
}

// bring brings a commit of the mount's into the tree.
func (w *world) bring(c *versionlog.Commit, do func()) {
	w.made[c.Seq] = true
	w.locked(func() {
		w.NoteFreedLocked(c)
		do()
		w.FreedLocked(c)
	})
}

// makeHere makes a file that the log does not have.
func (w *world) makeHere(path string) (n *Entry) {
	dir, name := Split(path)
	w.locked(func() { n = w.MakeFileLocked(w.FindDirLocked(dir), name, 0o600, time.Now()) })
	return n
}

// bringPut makes a memory by a commit of the mount's.
func (w *world) bringPut(path string) {
	n := w.makeHere(path)
	c := w.batch(memory.Change{Action: versionlog.Put, Path: path, Content: []byte(path), Expect: versionlog.ExpectAbsent()})
	w.bring(c, func() { w.CommittedLocked(n, &c.Versions[0], memory.NewHead(&c.Versions[0])) })
}

// removeHere removes a memory by a commit of the mount's.
func (w *world) removeHere(path string) {
	c := w.batch(memory.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectExists()})
	w.bring(c, func() { w.RemovedLocked(w.FindLocked(path)) })
}

// hideHere renames a memory to a scratch name.
func (w *world) hideHere(path, scratch string) *Entry {
	m := w.move(path, scratch)
	w.locked(func() { w.HideLocked(m) })
	return m.Entry
}

// removeDirHere removes a directory in which all is hidden.
func (w *world) removeDirHere(path string) {
	dir, name := Split(path)
	w.locked(func() { w.RemovedDirLocked(w.FindDirLocked(dir), w.FindDirLocked(path), name, name) })
}

// move is a rename that has not happened.
func (w *world) move(from, to string) (m *Move) {
	dir, name := Split(to)
	w.locked(func() { m = moveOf(w.FindDirLocked(dir), w.FindLocked(from), name) })
	return m
}
