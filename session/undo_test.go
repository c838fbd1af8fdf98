package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/undo"
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
			if _, isUnknown := errors.AsType[*undo.UnknownSessionError](err); !isUnknown {
				r.must(err)
			}
			r.want(now)
		})
	}
}

// TestUndoErased: what cannot be taken back, since it was redacted, stays and is told with its path, or
// the last one that is known.
func TestUndoErased(t *testing.T) {
	modified := func(r *shared) { r.write("B", "/f", "old"); r.write("A", "/f", "A") }
	changed := func(r *shared) { modified(r); r.write("B", "/f", "B") }
	gone := func(r *shared) { modified(r); r.remove("B", "/f") }
	removed := func(r *shared) { r.write("B", "/f", "old"); r.remove("A", "/f") }
	moved := func(r *shared) { r.write("B", "/f", "old"); r.rename("A", "/f", "/g") }
	movedOn := func(r *shared) { moved(r); r.rename("B", "/g", "/h") }
	anew := func(r *shared) { removed(r); r.write("A", "/f", "A"); r.write("B", "/f", "B") }
	const before, made = ": what was there before the session was erased", ": what the session made of it was erased"
	for _, test := range []struct {
		do     func(r *shared)
		erased string // the numbers of versions, in their order
		want   map[string]string
		left   string
	}{
		{modified, "1", map[string]string{"/f": "A"}, "/f" + before},
		{changed, "1", map[string]string{"/f": "B"}, "/f" + before},
		{changed, "2", map[string]string{"/f": "B"}, "/f" + made},
		{changed, "12", map[string]string{"/f": "B"}, "/f" + before},
		{gone, "1", map[string]string{}, "/f" + before},
		{gone, "13", map[string]string{}, "/f" + before},
		{gone, "123", map[string]string{}, before},
		{gone, "3", map[string]string{}, ""},
		{removed, "1", map[string]string{}, "/f" + before},
		{removed, "2", map[string]string{}, "/f" + made},
		{removed, "12", map[string]string{}, before},
		{moved, "1", map[string]string{"/g": "old"}, "/g" + before},
		{movedOn, "2", map[string]string{"/h": "old"}, "/h" + made},
		{anew, "13", map[string]string{"/f": "B"}, "/f" + made + ", /f" + before},
	} {
		r := newShared(t, 100)
		test.do(r)
		r.erase(test.erased)
		done, err := r.undo("undo", "A", 0)
		r.must(err)
		r.want(test.want)
		var left []string
		for _, l := range done.Left {
			left = append(left, l.Path+": "+l.Why)
			if !l.IsErased() {
				t.Errorf("%+v is not taken for erased", l)
			}
		}
		slices.Sort(left) // what was made in one millisecond has no order
		if got := strings.Join(left, ", "); got != test.left || len(done.Conflicts) > 0 {
			t.Errorf("%v without %s: left are %q, want %q; conflicts: %v", test.want, test.erased, got, test.left, done.Conflicts)
		}
	}
}

// erase redacts versions, by their numbers in the history.
func (r *shared) erase(numbers string) {
	r.Helper()
	info := r.as("mine").Info()
	var ids []string
	n := 0
	for c, err := range r.as("mine").Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			if n++; strings.Contains(numbers, strconv.Itoa(n)) {
				ids = append(ids, v.ID)
			}
		}
	}
	_, err := r.log.Log.Commit(r.Context(), info.ID, &versionlog.Proposal{
		Key: versionlog.NewKey(), Actor: person, Message: "a test", Epoch: info.Epoch, Event: versionlog.StoreRedacted(ids...),
	})
	r.must(err)
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
	e, ok := errors.AsType[*undo.UnknownSessionError](err)
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

// TestUndoAfterRestore: changes of a session that a restore has brought back can be taken back
// again, and changes that it has taken back are not taken back twice. A session that says of its
// own commits that they have taken something back is not believed.
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
	for i, meta := range []map[string]string{nil, undo.UndoNote("A", 0, r.tip()+1), undo.RestoreNote(0)} {
		change := memory.Change{Action: versionlog.Put, Path: "/g", Content: fmt.Append(nil, i), Expect: versionlog.ExpectAny()}
		_, err = r.as("A").Batch(t.Context(), []memory.Change{change}, &memory.CommitOptions{Meta: meta})
		r.must(err)
	}
	_, err = r.undo("undo", "A", 0)
	r.must(err)
	r.want(map[string]string{"/f": ten})
}
