package session_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

var person = versionlog.Actor{Kind: versionlog.ActorUser, ID: "person"}

// undo takes back what a session did, in a session of its own.
func (r *shared) undo(own, id string, since uint64) (*session.Undone, error) {
	r.Helper()
	s := session.New(r.as("mine"), &session.Options{ID: own, Conflicts: r.conflicts})
	r.Cleanup(s.Close)
	return s.Undo(r.Context(), id, since, &session.StepOptions{Actor: person})
}

func (r *shared) remove(id, path string) {
	r.Helper()
	_, err := r.as(id).Remove(r.Context(), path, versionlog.ExpectExists())
	r.must(err)
}

func (r *shared) rename(id, from, to string) {
	r.Helper()
	_, err := r.as(id).Rename(r.Context(), from, to, nil)
	r.must(err)
}

// shown is texts without the directories that something is in.
func (r *shared) shown() map[string]string {
	r.Helper()
	all := r.texts()
	for dir := range all {
		for path := range all {
			if strings.HasSuffix(dir, "/") && path != dir && strings.HasPrefix(path, dir) {
				delete(all, dir)
			}
		}
	}
	return all
}

// editor makes random changes in the names of sessions. Each line that one writes is its own.
type editor struct {
	*shared
	*rand.Rand
	n int
}

func (e *editor) path() string {
	return []string{"/a", "/b", "/c", "/d/x", "/d/y", "/e"}[e.IntN(6)]
}

// edit returns a text with a few changes of a session.
func (e *editor) edit(id, text string) string {
	lines := slices.Collect(strings.Lines(text))
	for range 1 + e.IntN(2) {
		at := e.IntN(len(lines) + 1)
		e.n++
		line := fmt.Sprintf("%s %d\n", id, e.n)
		switch e.IntN(4) {
		case 0:
			if len(lines) > 0 {
				lines = slices.Delete(lines, min(at, len(lines)-1), min(at, len(lines)-1)+1)
			}
		case 1:
			if len(lines) > 0 {
				lines[min(at, len(lines)-1)] = line
			}
		default:
			lines = slices.Insert(lines, at, line)
		}
	}
	return strings.Join(lines, "")
}

// change tries one change of a session, which may be refused.
func (e *editor) change(id string) {
	st, ctx, path := e.as(id), e.Context(), e.path()
	switch e.IntN(12) {
	case 0:
		_, _ = st.RemoveTree(ctx, path, nil, nil)
	case 1:
		_, _ = st.Rename(ctx, path, e.path(), nil)
	case 2:
		_, _ = st.Rename(ctx, "/d", "/moved", nil)
	case 3:
		_, _ = st.MakeDir(ctx, path, versionlog.ExpectAny(), nil)
	case 4:
		_, _ = st.RemoveDir(ctx, path, nil)
	default:
		_, data, err := st.Read(ctx, path)
		if err != nil {
			data = fmt.Appendf(nil, "%s first %d\n", id, e.n)
			for i := range e.IntN(12) {
				data = fmt.Appendf(data, "%s of %d, line %d\n", id, e.n, i)
			}
			e.n++
		}
		_, _ = st.Write(ctx, path, []byte(e.edit(id, string(data))), versionlog.ExpectAny())
	}
}

// linesOf returns the lines in the store that a session wrote.
func linesOf(texts map[string]string, id string) (all []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, id+" ") {
				all = append(all, line)
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestUndoHistories: whatever two sessions have done to a store in turns, after an undo of one every
// line that the other had there is there. If the other has done nothing since, all is as before. A
// second undo changes nothing, and the undo of the undo brings everything back.
func TestUndoHistories(t *testing.T) {
	conflicts, merges := 0, 0
	for seed := range uint64(60) {
		e := &editor{shared: newShared(t, 2+int(seed%2)*100), Rand: rand.New(rand.NewPCG(seed, 0))}
		for range 12 {
			e.change("B")
		}
		before, since := e.shown(), e.tip()
		e.write("A", "/known", "A was here\n")
		for range 12 {
			if seed%4 > 0 && e.IntN(2) == 0 {
				e.change("B")
			} else {
				e.change("A")
			}
		}
		now, tip := e.shown(), e.tip()
		done, err := e.undo("undo", "A", 0)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		clean := len(done.Conflicts)+len(done.Left) == 0
		after := e.shown()
		fail := func(what string, want, got any) {
			for c, err := range e.as("B").Commits(t.Context(), since) {
				e.must(err)
				for _, v := range c.Versions {
					t.Logf("%d %s: %s %s %s", c.Seq, c.Session, v.Op, v.From, v.Path)
				}
			}
			t.Fatalf("seed %d, undone at %d, %+v: %s:\n%s", seed, tip, done, what, cmp.Diff(want, got))
		}
		if seed%4 == 0 && !cmp.Equal(before, after) {
			fail("nobody else wrote, and the store is not as before", before, after)
		}
		if theirs := linesOf(now, "B"); slices.ContainsFunc(theirs, func(line string) bool { return !slices.Contains(linesOf(after, "B"), line) }) {
			fail("lines of the other are lost", theirs, linesOf(after, "B"))
		}
		if mine := linesOf(after, "A"); clean && mine != nil {
			fail("lines that were taken back are there", []string(nil), mine)
		}
		if !clean {
			conflicts++
		} else if seed%4 > 0 {
			merges++
		}
		end := e.tip()
		again, err := e.undo("again", "A", 0)
		if err != nil || e.tip() != end || len(again.Conflicts) != len(done.Conflicts) || len(again.By) != 1 && done.Commits > 0 {
			fail("a second undo does something", again, done)
		}
		if done.Commits == 0 {
			continue
		}
		if _, err := e.undo("redo", "undo", 0); err != nil {
			t.Fatalf("seed %d: undo of the undo: %v", seed, err)
		}
		if back := e.shown(); !cmp.Equal(now, back) {
			fail("the undo of the undo makes it", now, back)
		}
		if _, err := e.undo("anew", "redo", 0); err != nil || !cmp.Equal(after, e.shown()) {
			fail(fmt.Sprintf("the undo of that makes it (%v)", err), after, e.shown())
		}
	}
	if conflicts < 5 || merges < 5 {
		t.Errorf("%d histories ended with conflicts, and %d were merged; the test tests too little", conflicts, merges)
	}
}

const ten = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

// TestUndo: what becomes of one memory that a session, A, has changed, and another one, too.
func TestUndo(t *testing.T) {
	edited := strings.Replace(ten, "2\n", "A\n", 1)
	for name, test := range map[string]struct {
		do        func(r *shared)
		want      map[string]string
		conflicts string // path and text of each that is kept
		left      string
	}{
		"alone":          {func(r *shared) { r.write("B", "/f", ten); r.write("A", "/f", edited) }, map[string]string{"/f": ten}, "", ""},
		"made":           {func(r *shared) { r.write("A", "/f", ten) }, map[string]string{}, "", ""},
		"made and read":  {func(r *shared) { r.write("A", "/f", ten); r.rename("B", "/f", "/g") }, map[string]string{}, "", ""},
		"removed":        {func(r *shared) { r.write("B", "/f", ten); r.remove("A", "/f") }, map[string]string{"/f": ten}, "", ""},
		"renamed":        {func(r *shared) { r.write("B", "/f", ten); r.rename("A", "/f", "/g") }, map[string]string{"/f": ten}, "", ""},
		"renamed, moved": {func(r *shared) { r.write("B", "/f", ten); r.rename("A", "/f", "/g"); r.rename("B", "/g", "/h") }, map[string]string{"/h": ten}, "", ""},
		"made anew":      {func(r *shared) { r.write("B", "/f", ten); r.remove("A", "/f"); r.write("A", "/f", edited) }, map[string]string{"/f": ten}, "", ""},
		"the same anew":  {func(r *shared) { r.write("B", "/f", ten); r.rename("A", "/f", "/f.bck"); r.write("A", "/f", ten) }, map[string]string{"/f": ten}, "", ""},
		"other lines": {
			func(r *shared) { r.write("B", "/f", ten); r.write("A", "/f", edited); r.write("B", "/f", edited+"B\n") },
			map[string]string{"/f": ten + "B\n"}, "", "",
		},
		"in turns": {func(r *shared) {
			r.write("B", "/f", ten)
			r.write("A", "/f", edited)
			r.write("B", "/f", edited+"B\n")
			r.write("A", "/f", "A\n"+edited+"B\n")
			r.write("B", "/f", "A\n"+edited+"B\nB\n")
		}, map[string]string{"/f": ten + "B\nB\n"}, "", ""},
		"other lines of what was made anew": {func(r *shared) {
			r.write("B", "/f", ten)
			r.rename("A", "/f", "/f.bck")
			r.write("A", "/f", edited)
			r.write("B", "/f", edited+"B\n")
		}, map[string]string{"/f": ten + "B\n"}, "", ""},
		"the same lines": {
			func(r *shared) { r.write("B", "/f", "old\n"); r.write("A", "/f", "A\n"); r.write("B", "/f", "B\n") },
			map[string]string{"/f": "B\n"}, "/f old\n", "",
		},
		"made by one, changed by the other": {
			func(r *shared) { r.write("A", "/f", "A\n"); r.write("B", "/f", "A\nB\n") },
			map[string]string{"/f": "A\nB\n"}, "/f ", "",
		},
		"no text": {
			func(r *shared) {
				r.write("B", "/f", "\x00old")
				r.write("A", "/f", "\x00A")
				r.write("B", "/f", "\x00B")
			},
			map[string]string{"/f": "\x00B"}, "/f \x00old", "",
		},
		"no text, alone": {func(r *shared) { r.write("B", "/f", "\x00old"); r.write("A", "/f", "\x00A") }, map[string]string{"/f": "\x00old"}, "", ""},
		"changed, removed by the other": {
			func(r *shared) { r.write("B", "/f", ten); r.write("A", "/f", edited); r.remove("B", "/f") }, map[string]string{}, "", "",
		},
		"removed, another there": {
			func(r *shared) { r.write("B", "/f", ten); r.remove("A", "/f"); r.write("B", "/f", "B") },
			map[string]string{"/f": "B"}, "/f " + ten, "",
		},
		"removed, a directory there": {
			func(r *shared) { r.write("B", "/f", ten); r.remove("A", "/f"); r.write("B", "/f/g", "B") },
			map[string]string{"/f/g": "B"}, "/f " + ten, "",
		},
		"renamed, another there": {
			func(r *shared) { r.write("B", "/f", ten); r.rename("A", "/f", "/g"); r.write("B", "/f", "B") },
			map[string]string{"/f": "B", "/g": ten}, "", "/f",
		},
		"swapped": {func(r *shared) {
			r.write("B", "/f", "f")
			r.write("B", "/g", "g")
			r.rename("A", "/f", "/h")
			r.rename("A", "/g", "/f")
			r.rename("A", "/h", "/g")
		}, map[string]string{"/f": "f", "/g": "g"}, "", ""},
		"renamed in a chain, a directory there": {func(r *shared) {
			r.write("B", "/f", "f")
			r.write("B", "/g", "g")
			r.rename("A", "/f", "/h")
			r.rename("A", "/g", "/f")
			_, err := r.as("B").MakeDir(r.Context(), "/g", versionlog.ExpectAbsent(), nil)
			r.must(err)
		}, map[string]string{"/f": "g", "/g/": "", "/h": "f"}, "", "/f,/g"},
		"a directory with something of the other": {func(r *shared) {
			r.write("A", "/d/f", "A")
			_, err := r.as("A").MakeDir(r.Context(), "/e", versionlog.ExpectAbsent(), nil)
			r.must(err)
			r.write("B", "/e/f", "B")
		}, map[string]string{"/e/": "", "/e/f": "B"}, "", ""},
		"an empty directory": {func(r *shared) {
			_, err := r.as("B").MakeDir(r.Context(), "/d", versionlog.ExpectAbsent(), nil)
			r.must(err)
			r.rename("A", "/d", "/e")
		}, map[string]string{"/d/": ""}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newShared(t, 100)
			test.do(r)
			now := r.texts()
			for range 2 {
				done, err := r.undo("undo", "A", 0)
				r.must(err)
				r.want(test.want)
				var kept, left []string
				for _, c := range done.Conflicts {
					_, texts, err := session.New(r.as("mine"), &session.Options{Conflicts: r.conflicts}).Conflicts().Get(c.ID)
					r.must(err)
					if string(texts.Theirs) != now[c.Path] {
						t.Errorf("the conflict has %q instead", texts.Theirs)
					}
					kept = append(kept, c.Path+" "+string(texts.Yours))
				}
				for _, l := range done.Left {
					left = append(left, l.Path)
				}
				if got := strings.Join(kept, ","); got != test.conflicts {
					t.Errorf("the conflicts are %q, want %q", got, test.conflicts)
				}
				if got := strings.Join(left, ","); got != test.left {
					t.Errorf("left are %q, want %q", got, test.left)
				}
			}
			if list, err := r.conflicts.List(); err != nil || len(list) > 1 {
				t.Errorf("%d conflicts are kept, %v", len(list), err)
			}
			_, err := r.undo("redo", "undo", 0)
			if _, isUnknown := errors.AsType[*memory.UnknownSessionError](err); !isUnknown {
				r.must(err)
			}
			r.want(now)
		})
	}
}

// TestUndoSince: what the session has done before stays.
// TestUndoMadeAnew: where a session has removed a memory and made another in its place, which others
// have changed since, a second undo finds nothing to do, and undos of undos go back and forth.
func TestUndoMadeAnew(t *testing.T) {
	r := newShared(t, 2)
	r.write("B", "/a", "one\ntwo\nthree\nfour\n")
	before := r.tip()
	r.remove("A", "/a")
	r.write("A", "/a", "one\ntwo, by A\nthree\nfour\n")
	r.write("B", "/a", "one\ntwo, by A\nthree\nfour\nfive, by B\n")
	now := r.shown()
	want := map[string]string{"/a": "one\ntwo\nthree\nfour\nfive, by B\n"}
	undo := func(own, id string, commits int, want map[string]string) *session.Undone {
		t.Helper()
		done, err := r.undo(own, id, before)
		if err != nil || done.Commits != commits || len(done.Conflicts)+len(done.Left) > 0 || !cmp.Equal(r.shown(), want) {
			t.Errorf("undo of %s: %+v, %v: %s", id, done, err, cmp.Diff(want, r.shown()))
		}
		return done
	}
	undo("undo", "A", 1, want)
	if again := undo("again", "A", 0, want); !slices.Equal(again.By, []string{"undo"}) {
		t.Errorf("it was taken back by %q", again.By)
	}
	undo("redo", "undo", 1, now)
	undo("undo 2", "A", 1, want)
	undo("again", "A", 0, want)
	undo("redo 2", "undo 2", 1, now)
	undo("undo 3", "redo 2", 1, want)
	undo("again", "A", 0, want)
}

func TestUndoSince(t *testing.T) {
	r := newShared(t, 100)
	r.write("A", "/f", "first")
	since := r.tip()
	r.write("A", "/f", "second")
	r.write("A", "/g", "second")
	_, err := r.undo("undo", "A", since)
	r.must(err)
	r.want(map[string]string{"/f": "first"})
	done, err := r.undo("undo all", "A", 0)
	r.must(err)
	r.want(map[string]string{})
	if !slices.Equal(done.By, []string{"undo"}) {
		t.Errorf("it was taken back before by %q", done.By)
	}
	if done, err = r.undo("nothing", "A", r.tip()); err != nil || done.Commits != 0 {
		t.Errorf("since the newest commit it takes back %+v, %v", done, err)
	}
}

// TestUndoUnknown: a session that has done nothing is none, and the error names those that have.
func TestUndoUnknown(t *testing.T) {
	r := newShared(t, 100)
	for i := range 9 {
		r.write(fmt.Sprint("sesn_", i), "/f", fmt.Sprint(i))
	}
	_, err := r.undo("undo", "nobody", 0)
	e, ok := errors.AsType[*memory.UnknownSessionError](err)
	if !ok || !errors.Is(err, versionlog.ErrNotFound) || !slices.Equal(e.Recent, []string{"sesn_8", "sesn_7", "sesn_6", "sesn_5", "sesn_4"}) {
		t.Errorf("undo of nobody ends with %v", err)
	}
}

// TestUndoBesideOthers: what is written between plan and commit is kept like what was written before.
func TestUndoBesideOthers(t *testing.T) {
	r := newShared(t, 100)
	r.write("B", "/f", ten)
	r.write("B", "/g", ten)
	r.write("A", "/f", "A\n"+ten)
	r.write("A", "/g", "A\n"+ten)
	r.log.Next(logfault.BeforeCommit, func() { r.write("B", "/f", "A\n"+ten+"B\n") })
	r.log.Next(logfault.BeforeCommit, func() { r.rename("B", "/g", "/h") })
	done, err := r.undo("mine", "A", 0)
	r.must(err)
	r.want(map[string]string{"/f": ten + "B\n", "/h": ten})
	if done.Commits != 1 {
		t.Errorf("it made %d commits", done.Commits)
	}
}

// TestUndoInCommits: where the log takes few changes at once, whatever becomes of any commit, the same
// call goes on, and undoing both brings everything back.
func TestUndoInCommits(t *testing.T) {
	for _, fate := range []logfault.Fate{logfault.Unheard, logfault.Unmade} {
		for failing := range 3 {
			t.Run(fmt.Sprint(fate, failing), func(t *testing.T) {
				r := newShared(t, 2)
				want := map[string]string{}
				for i := range 6 {
					path := fmt.Sprint("/", i)
					r.write("B", path, ten)
					r.write("A", path, "A\n"+ten)
					r.write("B", path, "A\n"+ten+"B\n")
					want[path] = ten + "B\n"
				}
				now := r.texts()
				r.log.SetFates(append(slices.Repeat([]logfault.Fate{logfault.Made}, 2+failing), fate)...) // 6 and 3 are too many
				if done, err := r.undo("mine", "A", 0); !errors.Is(err, logfault.ErrDown) || done.Commits != failing {
					t.Fatalf("it made %+v, and ended with %v", done, err)
				}
				_, err := r.undo("rest", "A", 0)
				r.must(err)
				r.want(want)
				done, err := r.undo("again", "A", 0)
				r.must(err)
				r.want(want)
				for _, by := range done.By {
					_, err := r.undo("back", by, 0)
					r.must(err)
				}
				r.want(now)
			})
		}
	}
}

// TestUndoAfterRestore: what a restore has brought back of a session can be taken back anew, and what
// it has taken back is not taken back twice. A session that says of its own commits that they have
// taken something back is not believed.
func TestUndoAfterRestore(t *testing.T) {
	r := newShared(t, 100)
	r.write("B", "/f", ten)
	r.write("A", "/f", "A\n"+ten)
	r.write("B", "/f", "A\n"+ten+"B\n")
	before := r.tip()
	restorer := session.New(r.as("mine"), &session.Options{})
	t.Cleanup(restorer.Close)
	byPerson := &session.StepOptions{Actor: person}
	for range 2 {
		_, err := r.undo("undo", "A", 0)
		r.must(err)
		r.want(map[string]string{"/f": ten + "B\n"})
		_, err = restorer.RestoreTree(t.Context(), "/", before, byPerson)
		r.must(err)
		r.want(map[string]string{"/f": "A\n" + ten + "B\n"})
	}
	_, err := restorer.RestoreTree(t.Context(), "/", 1, byPerson)
	r.must(err)
	done, err := r.undo("undo", "A", 0)
	if err != nil || done.Commits != 0 || len(done.Restored) == 0 || done.Restored[0] != r.tip() {
		t.Errorf("after the restore the undo makes %+v, %v", done, err)
	}
	for i, meta := range []map[string]string{nil, memory.UndoNote("A", 0, r.tip()+1), memory.RestoreNote(0)} {
		change := memory.Change{Action: versionlog.Put, Path: "/g", Content: fmt.Append(nil, i), Expect: versionlog.ExpectAny()}
		_, err = r.as("A").Batch(t.Context(), []memory.Change{change}, &memory.CommitOptions{Meta: meta})
		r.must(err)
	}
	_, err = r.undo("undo", "A", 0)
	r.must(err)
	r.want(map[string]string{"/f": ten})
}
