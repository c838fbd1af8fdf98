package session_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mneme/archive"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

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

// brought is the store that comes of an archive of this one, in another library.
func (r *shared) brought() *shared {
	r.Helper()
	var out bytes.Buffer
	_, err := archive.Export(r.Context(), r.as("mine"), &out, nil)
	r.must(err)
	a, err := archive.Open(r.Context(), bytes.NewReader(out.Bytes()), int64(out.Len()), nil)
	r.must(err)
	to := newLibrary(r.T, 200)
	done, err := archive.Import(r.Context(), to.lib, a, &archive.ImportOptions{
		Author: &memory.Author{Actor: person}, Marks: r.TempDir(), Conflicts: func(string) *conflict.Store { return to.conflicts },
	})
	r.must(err)
	to.id = done.Store.ID
	return to
}

// TestUndoHistories: whatever two sessions have done to a store in turns, after an undo of one every
// line that the other had there is there. If the other has done nothing since, all is as before. A
// second undo changes nothing, and the undo of the undo brings everything back, also in a store that
// came of an archive in between.
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
		copies := []*shared{e.shared}
		if seed%7 == 0 {
			copies = append(copies, e.brought())
		}
		for _, e := range copies {
			if _, err := e.undo("redo", "undo", 0); err != nil {
				t.Fatalf("seed %d: undo of the undo: %v", seed, err)
			}
			if back := e.shown(); !cmp.Equal(now, back) {
				fail("the undo of the undo makes it", now, back)
			}
		}
		for i, e := range copies {
			if i > 0 {
				e = e.brought()
			}
			if _, err := e.undo("anew", "redo", 0); err != nil || !cmp.Equal(after, e.shown()) {
				fail(fmt.Sprintf("the undo of that makes it (%v)", err), after, e.shown())
			}
		}
	}
	if conflicts < 5 || merges < 5 {
		t.Errorf("%d histories ended with conflicts, and %d were merged; the test tests too little", conflicts, merges)
	}
}
