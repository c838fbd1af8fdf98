package undo_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/forget"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/undo"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// wild makes random changes to a store: memories and directories that come, go, move, and take each
// other's places.
type wild struct {
	*memtest.Fixture
	*rand.Rand
	n int
}

func (w *wild) path() string {
	path := ""
	for depth := 1 + w.IntN(3); depth > 0; depth-- {
		path += "/" + string(rune('a'+w.IntN(3)))
	}
	return path
}

// change tries one change, which may be refused.
func (w *wild) change() {
	ctx := w.T.Context()
	w.n++
	switch path := w.path(); w.IntN(8) {
	case 0, 1, 2:
		_, _ = w.Write(ctx, path, fmt.Appendf(nil, "%d", w.n), versionlog.ExpectAny())
	case 3: // a content that another memory may have
		_, _ = w.Write(ctx, path, []byte("same"), versionlog.ExpectAny())
	case 4:
		_, _ = w.Store.Rename(ctx, path, w.path(), nil)
	case 5:
		_, _ = w.RemoveTree(ctx, path, nil, nil)
	case 6:
		_, _ = w.MakeDir(ctx, path, versionlog.ExpectAny(), nil)
	case 7:
		_, _ = w.RemoveDir(ctx, path, nil)
	}
}

// shows returns the state of a store after a commit: memories with their contents, and the
// directories in which nothing is.
func (w *wild) shows(seq uint64) (all []string) {
	state, err := w.At(w.T.Context(), seq)
	if err != nil {
		w.T.Fatal(err)
	}
	for v, err := range state.Heads(w.T.Context(), "/", "") {
		if err != nil {
			w.T.Fatal(err)
		}
		if n := len(all); n > 0 && strings.HasSuffix(all[n-1], "/") && strings.HasPrefix(v.Path, all[n-1]) {
			all = all[:n-1]
		}
		if v.IsDir() {
			all = append(all, v.Path)
		} else {
			all = append(all, fmt.Sprintf("%s %.6s", v.Path, v.Digest))
		}
	}
	return all
}

func (w *wild) tip() uint64 {
	tip, err := w.Tip(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return tip.Seq
}

// restore carries out a plan in commits of at most n changes.
func (w *wild) restore(path string, seq uint64, n int) *undo.Restoration {
	w.T.Helper()
	plan, err := undo.PlanRestore(w.T.Context(), w.Store, path, seq, nil)
	if errors.Is(err, versionlog.ErrNotFound) {
		return &undo.Restoration{}
	}
	if err != nil {
		w.T.Fatal(err)
	}
	if err := undo.CheckSources(w.T.Context(), w.Store, plan.Steps, func(int) {}); err != nil {
		w.T.Fatal(err)
	}
	for steps := range slices.Chunk(plan.Steps, n) {
		changes := make([]memory.Change, len(steps))
		for i := range steps {
			changes[i] = steps[i].Change
		}
		if _, err := w.Batch(w.T.Context(), changes, nil); err != nil {
			for _, s := range plan.Steps {
				w.T.Logf("%s %s %s", s.Op(), s.Change.Path, s.Change.To)
			}
			w.T.Fatal(err)
		}
	}
	return plan
}

// TestPlanRestore: whatever has become of a store, one commit makes it what it was at any point, and
// another takes that back; so do commits of one change each. Then there is nothing to do.
func TestPlanRestore(t *testing.T) {
	for seed := range uint64(150) {
		w := &wild{Fixture: memtest.New(t, nil), Rand: rand.New(rand.NewPCG(seed, 0))}
		for range 20 {
			w.change()
		}
		point := w.tip()
		for range 1 + w.IntN(25) {
			w.change()
		}
		before, n := w.tip(), 1000
		if seed%2 == 1 {
			n = 1
		}
		w.restore("/", point, n)
		if diff := cmp.Diff(w.shows(point), w.shows(w.tip())); diff != "" {
			t.Fatalf("seed %d: restored to %d:\n%s", seed, point, diff)
		}
		if n == 1000 && w.tip() > before+1 {
			t.Fatalf("seed %d: %d commits", seed, w.tip()-before)
		}
		if plan := w.restore("/", point, n); len(plan.Steps)+len(plan.Left) > 0 {
			t.Fatalf("seed %d: then there is to do %+v", seed, plan)
		}
		w.restore("/", before, n)
		if diff := cmp.Diff(w.shows(before), w.shows(w.tip())); diff != "" {
			t.Fatalf("seed %d: restored to %d:\n%s", seed, before, diff)
		}
		wantSound(t, w.Store)
	}
}

// TestPlanRestoreBelow: a restore of a directory changes only that directory, and leaves
// paths that something outside is in the way of.
func TestPlanRestoreBelow(t *testing.T) {
	split := func(all []string, dir string) (in, out []string) {
		for _, line := range all {
			if path, _, _ := strings.Cut(line, " "); path == dir || strings.HasPrefix(path, dir+"/") {
				in = append(in, line)
			} else {
				out = append(out, line)
			}
		}
		return in, out
	}
	for seed := range uint64(100) {
		w := &wild{Fixture: memtest.New(t, nil), Rand: rand.New(rand.NewPCG(seed, 1))}
		for range 20 {
			w.change()
		}
		point := w.tip()
		for range 20 {
			w.change()
		}
		before, dir := w.tip(), w.path()
		plan := w.restore(dir, point, 1+w.IntN(2)*1000)
		wantIn, _ := split(w.shows(point), dir)
		_, wantOut := split(w.shows(before), dir)
		in, out := split(w.shows(w.tip()), dir)
		if plan.Left == nil && !cmp.Equal(wantIn, in) {
			t.Fatalf("seed %d: %s restored to %d:\n%s", seed, dir, point, cmp.Diff(wantIn, in))
		}
		// The directories above an emptied directory, or above one that is no longer empty, are
		// listed otherwise.
		dirs := func(line string) bool { return strings.HasSuffix(line, "/") }
		if diff := cmp.Diff(slices.DeleteFunc(wantOut, dirs), slices.DeleteFunc(out, dirs)); diff != "" {
			t.Fatalf("seed %d: beside %s:\n%s", seed, dir, diff)
		}
	}
}

// TestPlanRestoreOrder: what is renamed to a place below another memory that is renamed, too, waits until
// that is away, also where each change is a commit.
func TestPlanRestoreOrder(t *testing.T) {
	for _, n := range []int{1, 1000} {
		w := &wild{Fixture: memtest.New(t, nil)}
		w.Put("/d/f", "below", versionlog.ExpectAbsent())
		w.Put("/y", "above", versionlog.ExpectAbsent())
		point := w.tip()
		w.Move("/d/f", "/a")
		w.Move("/y", "/d")
		w.restore("/", point, n)
		w.WantContent("/d/f", "below")
		w.WantContent("/y", "above")
	}
}

// TestPlanRestoreKeeps: memories come back as what they were, with their names as they were
// spelled; what has moved is renamed back.
func TestPlanRestoreKeeps(t *testing.T) {
	w := &wild{Fixture: memtest.New(t, nil), Rand: rand.New(rand.NewPCG(0, 0))}
	const decomposed = "/a\u030a.md"
	spelled := memory.Change{Action: versionlog.Put, Path: decomposed, Spelling: decomposed, Content: []byte("å"), Expect: versionlog.ExpectAbsent()}
	c, err := w.Batch(t.Context(), []memory.Change{spelled}, nil)
	if err != nil {
		t.Fatal(err)
	}
	moved := w.Put("/moved", "moved", versionlog.ExpectAbsent())
	gone := w.Put("/gone", "gone", versionlog.ExpectAbsent())
	point := w.tip()
	w.Delete("/å.md")
	w.Move("/moved", "/far/away")
	w.Delete("/gone")
	w.Put("/gone", "another", versionlog.ExpectAbsent())
	w.restore("/", point, 1000)
	if head := w.WantContent("/å.md", "å"); head.MemoryID != c.Versions[0].MemoryID || head.Spelling != decomposed {
		t.Errorf("the removed memory is back as %+v", head)
	}
	if head := w.WantContent("/moved", "moved"); head.MemoryID != moved.MemoryID || head.Op != versionlog.OpRenamed {
		t.Errorf("the renamed memory is back as %+v", head)
	}
	if head := w.WantContent("/gone", "gone"); head.MemoryID == gone.MemoryID {
		t.Error("what was made in the place of another memory is that memory")
	}
	if _, err := undo.PlanRestore(t.Context(), w.Store, "/nix", point, nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("what never was: %v", err)
	}
	if _, err := undo.PlanRestore(t.Context(), w.Store, "/", point+100, nil); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("a commit that is not there: %v", err)
	}
}

// TestRestoreLostContent: a content that the store has lost, or does not take any more, is not made
// current.
func TestRestoreLostContent(t *testing.T) {
	w := &wild{Fixture: memtest.NewGappy(t)}
	v := w.Put("/a", "old", versionlog.ExpectAbsent())
	w.Put("/a", "new", versionlog.ExpectVersion(v.ID))
	plan, err := undo.PlanRestore(t.Context(), w.Store, "/", v.Seq, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Lose(v)
	if err := undo.CheckSources(t.Context(), w.Store, plan.Steps, func(int) {}); err == nil {
		t.Error("the content is lost, and nothing is said")
	}
}

// forgedPast is a log of which a snapshot says something else than the history.
type forgedPast struct {
	versionlog.Log
	forge func(*versionlog.Version) (there bool)
}

func (l *forgedPast) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	state, err := l.Log.At(ctx, storeID, seq)
	if seq > 2 { // the state of now is another snapshot
		return state, err
	}
	return &forgedState{state, l.forge}, err
}

type forgedState struct {
	versionlog.State
	forge func(*versionlog.Version) bool
}

func (s *forgedState) Heads(ctx context.Context, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range s.State.Heads(ctx, prefix, after) {
			if s.forge(&v) && !yield(v, err) {
				return
			}
		}
	}
}

// TestRestoreForged: what a snapshot of the past says and the history does not is not restored.
func TestRestoreForged(t *testing.T) {
	for name, forge := range map[string]func(*versionlog.Version) bool{
		"content": func(v *versionlog.Version) bool { v.Digest, v.Size = cas.Sum([]byte("other")), 5; return true },
		"version": func(v *versionlog.Version) bool { v.ID = "memver_00000000040001wjbqaqs3g7tr"; return true },
		"name":    func(v *versionlog.Version) bool { v.Path = "/c"; return true },
		"actor":   func(v *versionlog.Version) bool { v.Actor.ID = "somebody"; return true },
		"absence": func(*versionlog.Version) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			blobs := memcas.New()
			lib := memory.NewLibrary(&forgedPast{memlog.New(nil), forge}, func(string) (cas.Store, error) { return blobs, nil })
			info, err := lib.CreateStore(t.Context(), "notes", nil)
			if err != nil {
				t.Fatal(err)
			}
			st, err := lib.Open(t.Context(), info.ID, memtest.Author)
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{"/a": "old", "/b": "other"} {
				if _, err := st.Write(t.Context(), path, []byte(text), versionlog.ExpectAbsent()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := st.Write(t.Context(), "/a", []byte("new"), versionlog.ExpectAny()); err != nil {
				t.Fatal(err)
			}
			plan, err := undo.PlanRestore(t.Context(), st, "/", 2, nil)
			if err == nil {
				err = undo.CheckSources(t.Context(), st, plan.Steps, func(int) {})
			}
			if !errors.Is(err, versionlog.ErrCorrupt) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// TestRestoreErased: what is there stays where its version of that time was erased; a directory
// whose removal was erased comes back as another one.
func TestRestoreErased(t *testing.T) {
	ctx := t.Context()
	w := &wild{Fixture: memtest.New(t, nil)}
	then := w.Put("/a", "secret", versionlog.ExpectAbsent())
	w.Put("/b", "b", versionlog.ExpectAbsent())
	if _, err := w.MakeDir(ctx, "/d", versionlog.ExpectAbsent(), nil); err != nil {
		t.Fatal(err)
	}
	point, err := w.Tip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	now := w.Put("/a", "clean", versionlog.ExpectVersion(then.ID))
	w.Put("/new", "new", versionlog.ExpectAbsent())
	if _, err := w.RemoveDir(ctx, "/d", nil); err != nil {
		t.Fatal(err)
	}
	var removal string
	for c, err := range w.Commits(ctx, now.Seq+1) {
		if err != nil {
			t.Fatal(err)
		}
		removal = c.Versions[0].ID
	}
	byPerson, err := w.Lib.Open(ctx, w.Info().ID, memtest.Person)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := forget.Redact(ctx, nil, byPerson, &forget.Request{Versions: []string{then.ID, removal}, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	plan, err := undo.PlanRestore(ctx, w.Store, "/", point.Seq, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Left) != 1 || plan.Left[0].Path != "/a" || plan.Left[0].Head.ID != now.ID || !strings.Contains(plan.Left[0].Why, "erased") {
		t.Errorf("left: %+v", plan.Left)
	}
	var changes []memory.Change
	for _, step := range plan.Steps {
		changes = append(changes, step.Change)
	}
	if _, err := w.Batch(ctx, changes, nil); err != nil {
		t.Error(err)
	}
	tip, err := w.Tip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("/a %.6s", now.Digest), fmt.Sprintf("/b %.6s", cas.Sum([]byte("b"))), "/d/"}
	if got := w.shows(tip.Seq); !slices.Equal(got, want) {
		t.Errorf("after the restore: %q", got)
	}
}

func wantSound(t *testing.T, st *memory.Store) {
	t.Helper()
	_, err := verify.Store(t.Context(), st, nil, func(p verify.Problem) { t.Errorf("%s %s: %s", p.Kind, p.Subject, p.What) })
	if err != nil {
		t.Fatal(err)
	}
}
